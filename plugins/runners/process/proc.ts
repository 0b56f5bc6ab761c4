import { readdirSync, readFileSync } from 'node:fs'

/** Facts from /proc; functions return null or empty if there are none (macOS, process ended). */

/** The result of a synchronous call, or `otherwise` if it throws. */
export function attempt<T, O> (call: () => T, otherwise: O): T | O {
  try { return call() } catch { return otherwise }
}

export const read = (path: string): string | null => attempt(() => readFileSync(path, 'utf8'), null)

/** Fields of /proc/<pid>/stat after the command name, which may itself contain spaces and parentheses. */
function statFields (pid: number): string[] | null {
  const text = read(`/proc/${pid}/stat`)
  return text === null ? null : text.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Start time of a process in clock ticks since boot (field 22 of stat); identifies it along with the pid. */
export function startTime (pid: number): string | null { return statFields(pid)?.[22 - 3] ?? null }

/** CPU time of a process and its ended children in clock ticks (fields 14 to 17 of stat). */
export function processorTicks (pid: number): number | null {
  return statFields(pid)?.slice(14 - 3, 18 - 3).reduce((sum, field) => sum + Number(field), 0) ?? null
}

/** Process group id (field 5 of stat). */
export function processGroup (pid: number): number | null {
  const field = statFields(pid)?.[5 - 3]
  return field === undefined ? null : Number(field)
}

export function bootId (): string | null { return read('/proc/sys/kernel/random/boot_id')?.trim() ?? null }

/** Initial environment of a process; empty if it cannot be read. */
export function environmentOf (pid: number): string[] {
  return read(`/proc/${pid}/environ`)?.split('\0') ?? []
}

export const processIds = (): number[] =>
  attempt(() => readdirSync('/proc'), []).filter((name) => /^\d+$/.test(name)).map(Number)

export function residentBytes (pid: number): number | null {
  const found = /^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`) ?? '')
  return found?.[1] === undefined ? null : Number(found[1]) * 1024
}

/** Memory of a process and its descendants in bytes, resident by default; null if the process has ended. */
export function processTreeBytes (
  pid: number, bytesOf: (pid: number) => number | null = residentBytes
): number | null {
  const own = bytesOf(pid)
  if (own === null) return null
  return childrenOf(pid).reduce((sum, child) => sum + (processTreeBytes(child, bytesOf) ?? 0), own)
}

function childrenOf (pid: number): number[] {
  return (read(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ').filter((id) => id !== '').map(Number)
}

/** The oldest living child of a process; the process itself if the system does not list children. */
export const firstChild = (pid: number): number => childrenOf(pid)[0] ?? pid

/** Milliseconds for which the main thread of a process was runnable without a CPU. */
export function processorWaitMs (pid: number): number {
  return Number(read(`/proc/${pid}/schedstat`)?.split(' ')[1] ?? 0) / 1e6
}

/** Describes how the kernel sees a process that does not answer, as one line for the flight recorder. */
export function diagnose (pid: number): string {
  const status = read(`/proc/${pid}/status`) ?? ''
  const field = (name: string): string => new RegExp(`^${name}:\\s+(.+)$`, 'm').exec(status)?.[1] ?? '?'
  const wchan = read(`/proc/${pid}/wchan`)?.trim() ?? '?'
  const place = wchan === '0' ? 'user code' : wchan
  const switches = `${field('voluntary_ctxt_switches')}/${field('nonvoluntary_ctxt_switches')}`
  return `state ${field('State')}, waits in ${place}, resident ${field('VmRSS')}, ` +
    `threads ${field('Threads')}, switches ${switches}`
}
