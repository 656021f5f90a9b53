//! Completion for bash: one file for mpiexec, mpirun and ferrule, since `ferrule why` takes the words of mpiexec.

use super::words::{self, Opt};
use crate::cli::table::{self, TABLE};
use crate::cli::values::{self, Values};
use crate::commands::COMMANDS;

/// What doesn't depend on the tables. Functions set `words`, `cur` and `COMPREPLY` of their caller.
const COMMON: &str = r#"# Completion of mpiexec, mpirun and ferrule for bash. Made by `ferrule info --pages`.

# The words up to the cursor, where bash has also divided them at : and =.
__ferrule_words() {
    local line=${COMP_LINE:0:COMP_POINT} i word rest
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        rest=${line#"${line%%[![:space:]]*}"}
        ((i < COMP_CWORD)) || word=$rest
        if ((i > 0)) && [[ $rest == "$line" ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        line=${rest#"$word"}
    done
    cur=${words[-1]}
}

# Leaves what follows the last : or = of the word, which is what bash replaces.
__ferrule_trim() {
    local i cut=
    [[ $COMP_WORDBREAKS == *:* && $cur == *:* ]] && cut=${cur%:*}:
    [[ $COMP_WORDBREAKS == *=* && ${cur#"$cut"} == *=* ]] && cut=$cut${cur#"$cut"} && cut=${cut%=*}=
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$cut"}
    done
    # What ends so wants more.
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[:=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

# The value $1; $2 goes in front of the answers. $3 is its kind, and of the kind "words" the rest are the words.
__ferrule_value() {
    local value=$1 front=$2 kind=$3
    shift 3
    case $kind in
        words) mapfile -t COMPREPLY < <(compgen -P "$front" -W "$*" -- "$value") ;;
        file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -P "$front" -f -- "$value") ;;
        directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -P "$front" -d -- "$value") ;;
        files | hosts)
            if [[ $value == *,* ]]; then
                front+=${value%,*},
                value=${value##*,}
            fi
            if [[ $kind == files ]]; then
                mapfile -t COMPREPLY < <(compgen -P "$front" -f -- "$value")
            else
                mapfile -t COMPREPLY < <(compgen -P "$front" -A hostname -W "$(__ferrule_ssh_hosts)" -- "$value" | sort -u)
            fi ;;
    esac
}

# Hosts that ~/.ssh/config names.
__ferrule_ssh_hosts() {
    local key names
    [[ -r ~/.ssh/config ]] || return 0
    while read -r key names; do
        [[ ${key,,} == host && $names != *[*?!]* ]] && printf '%s\n' "$names"
    done < ~/.ssh/config
}
"#;

/// The logic of mpiexec. `__ferrule_mpiexec_kind` and the list of names come from the table.
const MPIEXEC: &str = r#"
# Completes the words of mpiexec from number $1 on.
__ferrule_mpiexec_from() {
    local i=$1 name count=0 inside= option= kind
    for ((; i < ${#words[@]} - 1; i++)); do
        if ((count > 0)); then
            ((count--))
        elif [[ ${words[i]} == : ]]; then
            inside=
        elif [[ -z $inside && ${words[i]} == -?* && ${words[i]} != -- ]]; then
            option=${words[i]#-}
            option=${option#-}
            if [[ $option == *=* ]]; then count=0; else __ferrule_mpiexec_kind "$option"; fi
        elif [[ ${words[i]} != -- ]]; then
            inside=1
        fi
    done
    if ((count > 0)); then
        # The value of the last option; of two words only the last one is known.
        __ferrule_mpiexec_kind "$option"
        ((count == 1)) && __ferrule_value "$cur" "" $kind
    elif [[ -n $inside ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [[ $cur == -*=* ]]; then
        name=${cur%%=*}
        option=${name#-}
        __ferrule_mpiexec_kind "${option#-}"
        __ferrule_value "${cur#*=}" "$name=" ${kind:-none}
    elif [[ $cur == --* ]]; then
        mapfile -t COMPREPLY < <(compgen -P -- -W "$__ferrule_mpiexec_names" -- "${cur#--}")
    elif [[ $cur == -?* ]]; then
        mapfile -t COMPREPLY < <(compgen -P - -W "$__ferrule_mpiexec_names" -- "${cur#-}")
    elif [[ $cur == - ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$__ferrule_mpiexec_shown" -- "$cur")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
    fi
}

_ferrule_mpiexec() {
    local words cur
    COMPREPLY=()
    __ferrule_words
    __ferrule_mpiexec_from 1
    __ferrule_trim
}
complete -F _ferrule_mpiexec mpiexec mpirun
"#;

const FERRULE: &str = r#"
_ferrule() {
    local words cur kind name
    COMPREPLY=()
    __ferrule_words
    if ((${#words[@]} == 2)); then
        mapfile -t COMPREPLY < <(compgen -W "$__ferrule_commands" -- "$cur")
    elif [[ ${words[1]} == why ]]; then
        __ferrule_mpiexec_from 2
    else
        __ferrule_kind "${words[1]}" "${words[-2]}"
        if [[ -n $kind ]]; then
            __ferrule_value "$cur" "" $kind
        elif [[ $cur == -*=* ]]; then
            name=${cur%%=*}
            __ferrule_kind "${words[1]}" "$name"
            __ferrule_value "${cur#*=}" "$name=" ${kind:-none}
        else
            __ferrule_rest "${words[1]}"
        fi
    fi
    __ferrule_trim
}
complete -F _ferrule ferrule
"#;

/// The script.
pub fn script() -> String {
    [COMMON, &mpiexec_tables(), MPIEXEC, &ferrule_tables(), FERRULE].concat()
}

/// The first words of `__ferrule_value`.
fn kind(values: &Values) -> String {
    match values {
        Values::Any => "none".into(),
        Values::Words(words) => format!("words {}", words.join(" ")),
        Values::File => "file".into(),
        Values::Files => "files".into(),
        Values::Directory => "directory".into(),
        Values::Hosts => "hosts".into(),
        Values::Setting => {
            let names = crate::settings::tables().into_iter().flat_map(|(_, table)| table);
            format!("words {}", names.map(|meta| format!("{}=", meta.name)).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Names of options, and for all that take words: how many, and what completes the last.
fn mpiexec_tables() -> String {
    let names: Vec<&str> = table::own().flat_map(|s| s.names.iter().copied()).collect();
    let shown: Vec<String> = names.iter().map(|name| table::shown(name)).collect();
    let mut out =
        format!("\n__ferrule_mpiexec_names='{}'\n__ferrule_mpiexec_shown='{}'\n", names.join(" "), shown.join(" "));
    out.push_str("# Sets count, the words that follow the option, and kind, what completes the last of them.\n");
    out.push_str("__ferrule_mpiexec_kind() {\n    count=0 kind=none\n    case $1 in\n");
    for spelling in TABLE.iter().filter(|s| s.words > 0) {
        let (count, kind) = (spelling.words, kind(&values::of(spelling.kind)));
        out.push_str(&format!("        {}) count={count} kind='{kind}' ;;\n", spelling.names.join(" | ")));
    }
    out.push_str("    esac\n}\n");
    out
}

fn ferrule_tables() -> String {
    let mut commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    commands.push("help");
    let mut out = format!("\n__ferrule_commands='{}'\n", commands.join(" "));
    let (mut kinds, mut rest) = (String::new(), String::new());
    for command in COMMANDS.iter().filter(|command| command.name != "why") {
        let options = words::options(command);
        for option in options.iter().filter(|option| !option.metavar.is_empty()) {
            let patterns: Vec<String> = option.names.iter().map(|name| format!("{} {name}", command.name)).collect();
            let patterns: Vec<String> = patterns.iter().map(|pattern| format!("'{pattern}'")).collect();
            kinds.push_str(&format!("        {}) kind='{}' ;;\n", patterns.join(" | "), kind(&option.values)));
        }
        rest.push_str(&format!("        {}) __ferrule_value \"$cur\" \"\" words {}", command.name, first(&options)));
        rest.push_str(&words::below(command).iter().map(|word| format!(" {word}")).collect::<String>());
        rest.push_str(" ;;\n");
    }
    out.push_str("# Sets kind, what completes the value of option $2 of command $1; empty if it takes none.\n");
    out.push_str(&format!("__ferrule_kind() {{\n    kind=\n    case \"$1 $2\" in\n{kinds}    esac\n}}\n"));
    out.push_str("# Options of command $1, and what else it takes.\n__ferrule_rest() {\n");
    out.push_str("    if [[ $cur != -* ]]; then\n        case $1 in\n            drain) __ferrule_value \"$cur\" \"\" hosts; return ;;\n");
    out.push_str("            info | doctor) __ferrule_value \"$cur\" \"\" file; return ;;\n        esac\n    fi\n");
    out.push_str(&format!("    case $1 in\n{rest}    esac\n}}\n"));
    out
}

fn first(options: &[Opt]) -> String {
    options.iter().flat_map(|option| option.names.clone()).collect::<Vec<_>>().join(" ")
}
