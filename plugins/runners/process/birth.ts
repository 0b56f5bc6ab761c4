/**
 * Imported first by the runner's entry. The node may have died between starting this process and the
 * moment the kernel ties their lives together; then nobody would ever end it.
 */
if (process.ppid !== Number(process.argv[2])) process.kill(process.pid, 'SIGKILL')
process.umask(0o077)
