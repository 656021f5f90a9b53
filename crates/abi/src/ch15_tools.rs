//! Tools: profiling control and the tool interface (MPI-5.0, chapter 15).

use crate::api::api;
use crate::kinds::*;

api! {
    with cs;

    /// Controls profiling: 0 pauses it, 1 goes on, other levels begin a phase
    MPI_Pcontrol => (level: Level) on anytime {
        mpi::profile::control(cs, level);
        Ok(())
    }

    /// Number that changes when categories do
    MPI_T_category_changed => (update_number: OutInt) on tool unimplemented

    /// Sub-categories of a category
    MPI_T_category_get_categories => (cat_index: Int, len: Int, indices: OutIntArray) on tool unimplemented

    /// Control variables of a category
    MPI_T_category_get_cvars => (cat_index: Int, len: Int, indices: OutIntArray) on tool unimplemented

    /// Event types of a category
    MPI_T_category_get_events => (cat_index: Int, len: Int, indices: OutIntArray) on tool unimplemented

    /// Index of a category by name
    MPI_T_category_get_index => (name: Text, cat_index: OutInt) on tool unimplemented

    /// Name and contents of a category
    MPI_T_category_get_info => (
        cat_index: Int, name: OutText, name_len: InOutInt, desc: OutText, desc_len: InOutInt, num_cvars: OutInt,
        num_pvars: OutInt, num_categories: OutInt
    ) on tool unimplemented

    /// Number of categories
    MPI_T_category_get_num => (num_cat: OutInt) on tool unimplemented

    /// Number of event types in a category
    MPI_T_category_get_num_events => (cat_index: Int, num_events: OutInt) on tool unimplemented

    /// Performance variables of a category
    MPI_T_category_get_pvars => (cat_index: Int, len: Int, indices: OutIntArray) on tool unimplemented

    /// Index of a control variable by name
    MPI_T_cvar_get_index => (name: Text, cvar_index: OutInt) on tool unimplemented

    /// Description of a control variable
    MPI_T_cvar_get_info => (
        cvar_index: Int, name: OutText, name_len: InOutInt, verbosity: OutInt, datatype: OutType,
        enumtype: TEnumPtr, desc: OutText, desc_len: InOutInt, bind: OutInt, scope: OutInt
    ) on tool unimplemented

    /// Number of control variables
    MPI_T_cvar_get_num => (num_cvar: OutInt) on tool unimplemented

    /// Binds a control variable to an object
    MPI_T_cvar_handle_alloc => (
        cvar_index: Int, obj_handle: Addr, handle: TCvarHandlePtr, count: OutInt
    ) on tool unimplemented

    /// Frees a control variable's handle
    MPI_T_cvar_handle_free => (handle: TCvarHandlePtr) on tool unimplemented

    /// Reads a control variable
    MPI_T_cvar_read => (handle: TCvarHandle, buf: Addr) on tool unimplemented

    /// Writes a control variable
    MPI_T_cvar_write => (handle: TCvarHandle, buf: ConstAddr) on tool unimplemented

    /// Name and number of items of an enumeration
    MPI_T_enum_get_info => (enumtype: TEnum, num: OutInt, name: OutText, name_len: InOutInt) on tool unimplemented

    /// Item of an enumeration
    MPI_T_enum_get_item => (
        enumtype: TEnum, indx: Int, value: OutInt, name: OutText, name_len: InOutInt
    ) on tool unimplemented

    /// Hints of an event callback
    MPI_T_event_callback_get_info => (
        event_registration: TEventRegistration, cb_safety: TCbSafety, info_used: OutInfo
    ) on tool unimplemented

    /// Sets hints of an event callback
    MPI_T_event_callback_set_info => (
        event_registration: TEventRegistration, cb_safety: TCbSafety, info: Info
    ) on tool unimplemented

    /// Copies the data of an event
    MPI_T_event_copy => (event_instance: TEventInstance, buffer: Addr) on tool unimplemented

    /// Index of an event type by name
    MPI_T_event_get_index => (name: Text, event_index: OutInt) on tool unimplemented

    /// Description of an event type
    MPI_T_event_get_info => (
        event_index: Int, name: OutText, name_len: InOutInt, verbosity: OutInt, array_of_datatypes: OutTypeArray,
        array_of_displacements: OutAintArray, num_elements: OutInt, enumtype: TEnumPtr, info: OutInfo,
        desc: OutText, desc_len: InOutInt, bind: OutInt
    ) on tool unimplemented

    /// Number of event types
    MPI_T_event_get_num => (num_events: OutInt) on tool unimplemented

    /// Source of an event
    MPI_T_event_get_source => (event_instance: TEventInstance, source_index: OutInt) on tool unimplemented

    /// Time of an event
    MPI_T_event_get_timestamp => (
        event_instance: TEventInstance, event_timestamp: OutBigCount
    ) on tool unimplemented

    /// Registers for an event type
    MPI_T_event_handle_alloc => (
        event_index: Int, obj_handle: Addr, info: Info, event_registration: TEventRegistrationPtr
    ) on tool unimplemented

    /// Frees an event registration
    MPI_T_event_handle_free => (
        event_registration: TEventRegistration, user_data: Addr, free_cb_function: TEventFreeCbFunction
    ) on tool unimplemented

    /// Hints of an event registration
    MPI_T_event_handle_get_info => (
        event_registration: TEventRegistration, info_used: OutInfo
    ) on tool unimplemented

    /// Sets hints of an event registration
    MPI_T_event_handle_set_info => (event_registration: TEventRegistration, info: Info) on tool unimplemented

    /// Reads an element of an event
    MPI_T_event_read => (event_instance: TEventInstance, element_index: Int, buffer: Addr) on tool unimplemented

    /// Sets the callback of an event registration
    MPI_T_event_register_callback => (
        event_registration: TEventRegistration, cb_safety: TCbSafety, info: Info, user_data: Addr,
        event_cb_function: TEventCbFunction
    ) on tool unimplemented

    /// Sets the callback for dropped events
    MPI_T_event_set_dropped_handler => (
        event_registration: TEventRegistration, dropped_cb_function: TEventDroppedCbFunction
    ) on tool unimplemented

    /// Ends the tool interface
    MPI_T_finalize => () on tool unimplemented

    /// Starts the tool interface
    MPI_T_init_thread => (required: Int, provided: OutInt) on tool unimplemented

    /// Index of a performance variable by name
    MPI_T_pvar_get_index => (name: Text, var_class: Int, pvar_index: OutInt) on tool unimplemented

    /// Description of a performance variable
    MPI_T_pvar_get_info => (
        pvar_index: Int, name: OutText, name_len: InOutInt, verbosity: OutInt, var_class: OutInt,
        datatype: OutType, enumtype: TEnumPtr, desc: OutText, desc_len: InOutInt, bind: OutInt, readonly: OutInt,
        continuous: OutInt, atomic: OutInt
    ) on tool unimplemented

    /// Number of performance variables
    MPI_T_pvar_get_num => (num_pvar: OutInt) on tool unimplemented

    /// Binds a performance variable to an object
    MPI_T_pvar_handle_alloc => (
        session: TPvarSession, pvar_index: Int, obj_handle: Addr, handle: TPvarHandlePtr, count: OutInt
    ) on tool unimplemented

    /// Frees a performance variable's handle
    MPI_T_pvar_handle_free => (session: TPvarSession, handle: TPvarHandlePtr) on tool unimplemented

    /// Reads a performance variable
    MPI_T_pvar_read => (session: TPvarSession, handle: TPvarHandle, buf: Addr) on tool unimplemented

    /// Reads and resets a performance variable
    MPI_T_pvar_readreset => (session: TPvarSession, handle: TPvarHandle, buf: Addr) on tool unimplemented

    /// Resets a performance variable
    MPI_T_pvar_reset => (session: TPvarSession, handle: TPvarHandle) on tool unimplemented

    /// Creates a session for performance variables
    MPI_T_pvar_session_create => (session: TPvarSessionPtr) on tool unimplemented

    /// Frees a session for performance variables
    MPI_T_pvar_session_free => (session: TPvarSessionPtr) on tool unimplemented

    /// Starts a performance variable
    MPI_T_pvar_start => (session: TPvarSession, handle: TPvarHandle) on tool unimplemented

    /// Stops a performance variable
    MPI_T_pvar_stop => (session: TPvarSession, handle: TPvarHandle) on tool unimplemented

    /// Writes a performance variable
    MPI_T_pvar_write => (session: TPvarSession, handle: TPvarHandle, buf: ConstAddr) on tool unimplemented

    /// Description of an event source
    MPI_T_source_get_info => (
        source_index: Int, name: OutText, name_len: InOutInt, desc: OutText, desc_len: InOutInt,
        ordering: TSourceOrderPtr, ticks_per_second: OutBigCount, max_ticks: OutBigCount, info: OutInfo
    ) on tool unimplemented

    /// Number of event sources
    MPI_T_source_get_num => (num_sources: OutInt) on tool unimplemented

    /// Current time of an event source
    MPI_T_source_get_timestamp => (source_index: Int, timestamp: OutBigCount) on tool unimplemented
}
