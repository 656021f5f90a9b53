//! Info objects (MPI-5.0, chapter 10).

use crate::api::api;
use crate::chosen::MAX_INFO_KEY;
use crate::kinds::*;
use core::ffi::c_int;
use mpi::info;

api! {
    with cs;

    /// Creates an empty info object
    MPI_Info_create => (info: OutInfo) on anytime {
        info.set(CInfo::of(info::enter(cs, info::Info::new())));
        Ok(())
    }

    /// Info object of the environment before `MPI_Init`
    MPI_Info_create_env => (argc: Int, argv: Strings, info: OutInfo) on anytime {
        info.set(CInfo::of(info::enter(cs, info::create_environment(cs))));
        Ok(())
    }

    /// Deletes a key
    MPI_Info_delete => (info: InfoObject, key: Text) on anytime { info.delete(key) }

    /// Duplicates an info object
    MPI_Info_dup => (info: InfoObject, newinfo: OutInfo) on anytime {
        newinfo.set(CInfo::of(info::enter(cs, info.duplicate())));
        Ok(())
    }

    /// Frees an info object
    MPI_Info_free => (info: InOutInfo) on anytime {
        info::free(cs, info.value().known())?;
        info.set(CInfo::null());
        Ok(())
    }

    /// Number of keys
    MPI_Info_get_nkeys => (info: InfoObject, nkeys: OutInt) on anytime {
        nkeys.set(info.len() as c_int);
        Ok(())
    }

    /// The n-th key
    MPI_Info_get_nthkey => (info: InfoObject, n: Int, key: OutText) on anytime {
        key.write(&info.nth_key(n)?, MAX_INFO_KEY);
        Ok(())
    }

    /// Value of a key
    MPI_Info_get_string => (
        info: InfoObject, key: Text, buflen: InOutInt, value: OutText, flag: OutFlag
    ) on anytime {
        let found = info.get(key)?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            value.write(&found, usize::try_from(buflen.value()).unwrap_or(0));
            buflen.set(found.len() as c_int + 1);
        }
        Ok(())
    }

    /// Sets a key
    MPI_Info_set => (info: InfoObject, key: Text, value: Text) on anytime { info.set(key, value) }
}
