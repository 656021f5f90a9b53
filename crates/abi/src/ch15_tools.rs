//! Tools: profiling control and the tool interface (MPI-5.0, chapter 15).

use crate::api::api;
use crate::chosen::{Chosen, TOOL};
use crate::convert::{Abi, number};
use crate::kinds::*;
use crate::tool;
use base::{Class, Error, ensure, fail};
use core::ffi::{c_int, c_void};
use mpi::thread;
use mpi::tool::{Bind, Type, categories, cvar, enums, event, pvar};

api! {
    with cs;

    /// Controls profiling: 0 pauses it, 1 goes on, other levels begin a phase
    MPI_Pcontrol => (level: Level) on anytime {
        mpi::profile::control(cs, level);
        Ok(())
    }

    /// Number that changes when categories do
    MPI_T_category_changed => (update_number: TInt) on tool {
        // The categories never change.
        tool::wanted(update_number)?.write(0);
        Ok(())
    }

    /// Sub-categories of a category
    MPI_T_category_get_categories => (cat_index: Int, len: Int, indices: TInts) on tool {
        tool::put_indices(indices, len, &categories::from_index(cat_index)?.categories)
    }

    /// Control variables of a category
    MPI_T_category_get_cvars => (cat_index: Int, len: Int, indices: TInts) on tool {
        tool::put_indices(indices, len, &categories::from_index(cat_index)?.cvars)
    }

    /// Event types of a category
    MPI_T_category_get_events => (cat_index: Int, len: Int, indices: TInts) on tool {
        tool::put_indices(indices, len, &categories::from_index(cat_index)?.events)
    }

    /// Index of a category by name
    MPI_T_category_get_index => (name: TName, cat_index: TInt) on tool {
        tool::wanted(cat_index)?.write(categories::index_of(tool::name(name)?)?);
        Ok(())
    }

    /// Name and contents of a category
    MPI_T_category_get_info => (
        cat_index: Int, name: TText, name_len: TInt, desc: TText, desc_len: TInt, num_cvars: TInt, num_pvars: TInt,
        num_categories: TInt
    ) on tool {
        let category = categories::from_index(cat_index)?;
        tool::put_text(name, name_len, &category.name);
        tool::put_text(desc, desc_len, &category.description);
        tool::put(num_cvars, category.cvars.len() as c_int);
        tool::put(num_pvars, category.pvars.len() as c_int);
        tool::put(num_categories, category.categories.len() as c_int);
        Ok(())
    }

    /// Number of categories
    MPI_T_category_get_num => (num_cat: TInt) on tool {
        tool::wanted(num_cat)?.write(categories::all().len() as c_int);
        Ok(())
    }

    /// Number of event types in a category
    MPI_T_category_get_num_events => (cat_index: Int, num_events: TInt) on tool {
        let category = categories::from_index(cat_index)?;
        tool::wanted(num_events)?.write(category.events.len() as c_int);
        Ok(())
    }

    /// Performance variables of a category
    MPI_T_category_get_pvars => (cat_index: Int, len: Int, indices: TInts) on tool {
        tool::put_indices(indices, len, &categories::from_index(cat_index)?.pvars)
    }

    /// Index of a control variable by name
    MPI_T_cvar_get_index => (name: TName, cvar_index: TInt) on tool {
        tool::wanted(cvar_index)?.write(cvar::index_of(tool::name(name)?)?);
        Ok(())
    }

    /// Description of a control variable
    MPI_T_cvar_get_info => (
        cvar_index: Int, name: TText, name_len: TInt, verbosity: TInt, datatype: TType, enumtype: TEnumPtr,
        desc: TText, desc_len: TInt, bind: TInt, scope: TInt
    ) on tool {
        let cvar = cvar::from_index(cvar_index)?;
        tool::put_text(name, name_len, &cvar.name);
        tool::put(verbosity, TOOL.tuner_detail);
        tool::put(datatype, tool::c_type(cvar.of_type()));
        tool::put(enumtype, pointer(cvar.enumeration().unwrap_or(0)));
        tool::put_text(desc, desc_len, &cvar.description());
        tool::put(bind, tool::c_bind(Bind::Nothing));
        tool::put(scope, TOOL.all_equal);
        Ok(())
    }

    /// Number of control variables
    MPI_T_cvar_get_num => (num_cvar: TInt) on tool {
        tool::wanted(num_cvar)?.write(cvar::all().len() as c_int);
        Ok(())
    }

    /// Binds a control variable to an object
    MPI_T_cvar_handle_alloc => (cvar_index: Int, obj_handle: Addr, handle: TCvarHandlePtr, count: TInt) on tool {
        let place = tool::wanted(handle)?;
        let (number, elements) = cvar::bind(cs, cvar_index)?;
        place.write(pointer(number));
        tool::put(count, elements as c_int);
        Ok(())
    }

    /// Frees a control variable's handle
    MPI_T_cvar_handle_free => (handle: TCvarHandlePtr) on tool {
        let place = tool::wanted(handle)?;
        cvar::unbind(cs, (*place).addr())?;
        place.write(pointer(0));
        Ok(())
    }

    /// Reads a control variable
    MPI_T_cvar_read => (handle: TCvarHandle, buf: Addr) on tool {
        tool::put_value(buf, cvar::from_handle(cs, handle.addr())?)
    }

    /// Writes a control variable
    MPI_T_cvar_write => (handle: TCvarHandle, buf: ConstAddr) on tool {
        let cvar = cvar::from_handle(cs, handle.addr())?;
        cvar.write(&tool::value(buf, cvar)?)
    }

    /// Name and number of items of an enumeration
    MPI_T_enum_get_info => (enumtype: TEnum, num: TInt, name: TText, name_len: TInt) on tool {
        let found = enums::from_handle(enumtype.addr())?;
        tool::put(num, found.items.len() as c_int);
        tool::put_text(name, name_len, found.name);
        Ok(())
    }

    /// Item of an enumeration
    MPI_T_enum_get_item => (
        enumtype: TEnum, indx: Int, value: TInt, name: TText, name_len: TInt
    ) on tool {
        let found = enums::from_handle(enumtype.addr())?;
        let invalid = |_| Error::new(Class::T_ERR_INVALID_ITEM, "no such item");
        let (number, text) = enums::item(found, indx).map_err(invalid)?;
        tool::put(value, number);
        tool::put_text(name, name_len, text);
        Ok(())
    }

    /// Hints of an event callback
    MPI_T_event_callback_get_info => (event_registration: TEventRegistration, cb_safety: TCbSafety, info_used: TInfo) on tool {
        event::ensure_registered(cs, event_registration.addr())?;
        tool::level(cb_safety)?;
        tool::put_info(cs, info_used)
    }

    /// Sets hints of an event callback
    MPI_T_event_callback_set_info => (event_registration: TEventRegistration, cb_safety: TCbSafety, info: Info) on tool {
        // No hint is known.
        event::ensure_registered(cs, event_registration.addr())?;
        tool::level(cb_safety).map(drop)
    }

    /// Copies the data of an event
    MPI_T_event_copy => (event_instance: TEventInstance, buffer: Addr) on tool {
        tool::put_event(buffer, &event::instance(cs, event_instance.addr())?)
    }

    /// Index of an event type by name
    MPI_T_event_get_index => (name: TName, event_index: TInt) on tool {
        tool::wanted(event_index)?.write(event::index_of(tool::name(name)?)?);
        Ok(())
    }

    /// Description of an event type
    MPI_T_event_get_info => (
        event_index: Int, name: TText, name_len: TInt, verbosity: TInt, array_of_datatypes: TTypes,
        array_of_displacements: TDispls, num_elements: TInt, enumtype: TEnumPtr, info: TInfo, desc: TText,
        desc_len: TInt, bind: TInt
    ) on tool {
        let found = event::from_index(event_index)?;
        tool::put_text(name, name_len, &found.name);
        tool::put(verbosity, TOOL.user_detail);
        let elements = found.elements();
        // How many there is room for; at the end, how many there are.
        let room = if num_elements.is_null() { 0 } else { (*num_elements).max(0) as usize };
        for (i, (of, at)) in elements.iter().enumerate().take(room) {
            if !array_of_datatypes.is_null() {
                array_of_datatypes.add(i).write(tool::c_type(*of));
            }
            if !array_of_displacements.is_null() {
                array_of_displacements.add(i).write(*at as i64);
            }
        }
        tool::put(num_elements, elements.len() as c_int);
        tool::put(enumtype, pointer(enums::handle(found.names())));
        tool::put_info(cs, info)?;
        tool::put_text(desc, desc_len, &found.description);
        tool::put(bind, tool::c_bind(found.bind()));
        Ok(())
    }

    /// Number of event types
    MPI_T_event_get_num => (num_events: TInt) on tool {
        tool::wanted(num_events)?.write(event::all().len() as c_int);
        Ok(())
    }

    /// Source of an event
    MPI_T_event_get_source => (event_instance: TEventInstance, source_index: TInt) on tool {
        let found = event::instance(cs, event_instance.addr())?;
        tool::wanted(source_index)?.write(found.event.source().index());
        Ok(())
    }

    /// Time of an event
    MPI_T_event_get_timestamp => (event_instance: TEventInstance, event_timestamp: TCount) on tool {
        let found = event::instance(cs, event_instance.addr())?;
        tool::wanted(event_timestamp)?.write(found.time_ns);
        Ok(())
    }

    /// Registers for an event type
    MPI_T_event_handle_alloc => (
        event_index: Int, obj_handle: Addr, info: Info, event_registration: TEventRegistrationPtr
    ) on tool {
        let place = tool::wanted(event_registration)?;
        let found = event::from_index(event_index)?;
        let comm = tool::object(cs, found.bind(), obj_handle)?;
        place.write(pointer(event::register(cs, found, comm)));
        Ok(())
    }

    /// Frees an event registration
    MPI_T_event_handle_free => (event_registration: TEventRegistration, user_data: Addr, free_cb_function: TEventFreeCbFunction) on tool {
        event::free(cs, event_registration.addr())?;
        tool::tell_freed(cs, free_cb_function, event_registration, user_data);
        Ok(())
    }

    /// Hints of an event registration
    MPI_T_event_handle_get_info => (event_registration: TEventRegistration, info_used: TInfo) on tool {
        event::ensure_registered(cs, event_registration.addr())?;
        tool::put_info(cs, info_used)
    }

    /// Sets hints of an event registration
    MPI_T_event_handle_set_info => (event_registration: TEventRegistration, info: Info) on tool {
        // No hint is known.
        event::ensure_registered(cs, event_registration.addr())
    }

    /// Reads an element of an event
    MPI_T_event_read => (event_instance: TEventInstance, element_index: Int, buffer: Addr) on tool {
        let elements = event::instance(cs, event_instance.addr())?.elements;
        let found = usize::try_from(element_index).ok().and_then(|index| elements.get(index));
        let Some(element) = found else { fail!(T_ERR_INVALID_INDEX, "no such element") };
        tool::put_element(tool::wanted(buffer)?, *element);
        Ok(())
    }

    /// Sets the callback of an event registration
    MPI_T_event_register_callback => (
        event_registration: TEventRegistration, cb_safety: TCbSafety, info: Info, user_data: Addr,
        event_cb_function: TEventCbFunction
    ) on tool {
        let callback = tool::callback(event_cb_function, user_data);
        event::set_callback(cs, event_registration.addr(), tool::level(cb_safety)?, callback)
    }

    /// Sets the callback for dropped events
    MPI_T_event_set_dropped_handler => (event_registration: TEventRegistration, dropped_cb_function: TEventDroppedCbFunction) on tool {
        let dropped = tool::dropped(dropped_cb_function, core::ptr::null_mut());
        event::set_dropped(cs, event_registration.addr(), dropped)
    }

    /// Ends the tool interface
    MPI_T_finalize => () on tool {
        mpi::tool::finalize(cs);
        Ok(())
    }

    /// Starts the tool interface
    MPI_T_init_thread => (required: Int, provided: TInt) on tool {
        mpi::tool::init(cs)?;
        // Every call takes the lock.
        tool::put(provided, number(Chosen::LEVELS, thread::Level::Multiple).unwrap_or(Chosen::UNDEFINED));
        Ok(())
    }

    /// Index of a performance variable by name
    MPI_T_pvar_get_index => (name: TName, var_class: Int, pvar_index: TInt) on tool {
        let index = pvar::index_of(tool::name(name)?, tool::is_counter(var_class)?)?;
        tool::wanted(pvar_index)?.write(index);
        Ok(())
    }

    /// Description of a performance variable
    MPI_T_pvar_get_info => (
        pvar_index: Int, name: TText, name_len: TInt, verbosity: TInt, var_class: TInt, datatype: TType,
        enumtype: TEnumPtr, desc: TText, desc_len: TInt, bind: TInt, readonly: TInt, continuous: TInt, atomic: TInt
    ) on tool {
        let pvar = pvar::from_index(pvar_index)?;
        let level = !pvar.is_counter();
        tool::put_text(name, name_len, &pvar.name);
        tool::put(verbosity, TOOL.user_detail);
        tool::put(var_class, if level { TOOL.level } else { TOOL.counter });
        tool::put(datatype, tool::c_type(Type::Unsigned));
        tool::put(enumtype, pointer(0));
        tool::put_text(desc, desc_len, pvar.description);
        tool::put(bind, tool::c_bind(pvar.bind));
        tool::put(readonly, c_int::from(level));
        tool::put(continuous, c_int::from(level));
        tool::put(atomic, c_int::from(!level));
        Ok(())
    }

    /// Number of performance variables
    MPI_T_pvar_get_num => (num_pvar: TInt) on tool {
        tool::wanted(num_pvar)?.write(pvar::all().len() as c_int);
        Ok(())
    }

    /// Binds a performance variable to an object
    MPI_T_pvar_handle_alloc => (
        session: TPvarSession, pvar_index: Int, obj_handle: Addr, handle: TPvarHandlePtr, count: TInt
    ) on tool {
        let place = tool::wanted(handle)?;
        let pvar = pvar::from_index(pvar_index)?;
        let comm = tool::object(cs, pvar.bind, obj_handle)?;
        place.write(pointer(pvar::bind(cs, session.addr(), pvar, comm)?));
        tool::put(count, 1);
        Ok(())
    }

    /// Frees a performance variable's handle
    MPI_T_pvar_handle_free => (session: TPvarSession, handle: TPvarHandlePtr) on tool {
        let place = tool::wanted(handle)?;
        pvar::unbind(cs, session.addr(), (*place).addr())?;
        place.write(pointer(0));
        Ok(())
    }

    /// Reads a performance variable
    MPI_T_pvar_read => (session: TPvarSession, handle: TPvarHandle, buf: Addr) on tool {
        let place = tool::wanted(buf)?.cast::<u64>();
        place.write_unaligned(pvar::read(cs, session.addr(), handle.addr())?);
        Ok(())
    }

    /// Reads and resets a performance variable
    MPI_T_pvar_readreset => (session: TPvarSession, handle: TPvarHandle, buf: Addr) on tool {
        let place = tool::wanted(buf)?.cast::<u64>();
        place.write_unaligned(pvar::read_and_reset(cs, session.addr(), handle.addr())?);
        Ok(())
    }

    /// Resets a performance variable
    MPI_T_pvar_reset => (session: TPvarSession, handle: TPvarHandle) on tool {
        pvar::reset(cs, session.addr(), handle.addr())
    }

    /// Creates a session for performance variables
    MPI_T_pvar_session_create => (session: TPvarSessionPtr) on tool {
        tool::wanted(session)?.write(pointer(pvar::create_session(cs)));
        Ok(())
    }

    /// Frees a session for performance variables
    MPI_T_pvar_session_free => (session: TPvarSessionPtr) on tool {
        let place = tool::wanted(session)?;
        pvar::free_session(cs, (*place).addr())?;
        place.write(pointer(0));
        Ok(())
    }

    /// Starts a performance variable
    MPI_T_pvar_start => (session: TPvarSession, handle: TPvarHandle) on tool {
        pvar::run(cs, session.addr(), handle.addr(), true)
    }

    /// Stops a performance variable
    MPI_T_pvar_stop => (session: TPvarSession, handle: TPvarHandle) on tool {
        pvar::run(cs, session.addr(), handle.addr(), false)
    }

    /// Writes a performance variable
    MPI_T_pvar_write => (session: TPvarSession, handle: TPvarHandle, buf: ConstAddr) on tool {
        ensure!(!buf.is_null(), T_ERR_INVALID, "null pointer for a value");
        pvar::write(cs, session.addr(), handle.addr(), buf.cast::<u64>().read_unaligned())
    }

    /// Description of an event source
    MPI_T_source_get_info => (
        source_index: Int, name: TText, name_len: TInt, desc: TText, desc_len: TInt, ordering: TSourceOrderPtr,
        ticks_per_second: TCount, max_ticks: TCount, info: TInfo
    ) on tool {
        let (known, description) = event::source(source_index)?;
        tool::put_text(name, name_len, known);
        tool::put_text(desc, desc_len, description);
        tool::put(ordering, TOOL.ordered);
        tool::put(ticks_per_second, 1_000_000_000);
        tool::put(max_ticks, i64::MAX);
        tool::put_info(cs, info)
    }

    /// Number of event sources
    MPI_T_source_get_num => (num_sources: TInt) on tool {
        tool::wanted(num_sources)?.write(event::Source::ALL.len() as c_int);
        Ok(())
    }

    /// Current time of an event source
    MPI_T_source_get_timestamp => (source_index: Int, timestamp: TCount) on tool {
        event::source(source_index)?;
        tool::wanted(timestamp)?.write(event::now_ns());
        Ok(())
    }
}

/// A handle as the program sees it.
fn pointer(number: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(number)
}
