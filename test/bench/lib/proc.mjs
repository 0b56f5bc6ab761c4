/** Process figures of Linux; null elsewhere. */
import { readFileSync } from 'node:fs'

// USER_HZ, which Linux fixes for /proc at 100.
const TICK_MS = 10

/** CPU time of a process so far in user and kernel mode, ms. */
export function cpuMs (pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return null
  }
}

/** Resident memory of a process, MB; null if it cannot be read. */
export function residentMb (pid) {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1.024e-3
  } catch {
    return null
  }
}
