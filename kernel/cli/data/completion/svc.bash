# bash completion of svc; load it with: source <(svc completion bash)
_svc_words () {
  local IFS=$'\n'
  local cur prefix
  cur="${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=( $(svc complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" "$cur" 2>/dev/null) )
  # readline takes ":" for the end of a word: what is before it is already there
  if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
    prefix="${cur%"${cur##*:}"}"
    COMPREPLY=( "${COMPREPLY[@]#"$prefix"}" )
  fi
}
complete -o default -F _svc_words svc
