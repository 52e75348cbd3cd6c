#!/bin/sh
# Starts the next program of this name on PATH. A command may have replaced the variables that make it report.
name=${0##*/}
here=${0%/*}
program=
IFS=:
for folder in $PATH; do
    if [ "$folder" != "$here" ] && [ -x "$folder/$name" ] && [ ! -d "$folder/$name" ]; then
        program=$folder/$name
        break
    fi
done
unset IFS
if [ -z "$program" ]; then
    echo "$name: not found" >&2
    exit 127
fi
if [ -n "$LOGOS_REPORT" ]; then
    case $name in
    node*)
        case $NODE_OPTIONS in
        *"$LOGOS_REPORT_NODE_OPTIONS"*) ;;
        *) export NODE_OPTIONS="$LOGOS_REPORT_NODE_OPTIONS${NODE_OPTIONS:+ $NODE_OPTIONS}" ;;
        esac
        ;;
    *)
        case ":$PYTHONPATH:" in
        *":$LOGOS_REPORT/python:"*) ;;
        *) export PYTHONPATH="$LOGOS_REPORT/python${PYTHONPATH:+:$PYTHONPATH}" ;;
        esac
        ;;
    esac
fi
exec "$program" "$@"
