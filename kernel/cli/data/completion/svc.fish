# fish completion of svc; load it with: svc completion fish | source
function __svc_words
  set -l words (commandline -opc)
  svc complete-words -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c svc -a '(__svc_words)'
