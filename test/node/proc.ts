/** Reads the parents, memory, sockets and ports of processes from /proc, and kills processes. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const read = (path: string): string => {
  try { return readFileSync(path, 'utf8') } catch { return '' }
}

/** Parent and state of a process; undefined if the process has exited. */
function stat (pid: number): { ppid: number, state: string } | undefined {
  const text = read(`/proc/${pid}/stat`)
  if (text === '') return undefined
  const [state = '', ppid = '0'] = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { state, ppid: Number(ppid) }
}

/** Whether a process runs; false for a zombie. */
export function alive (pid: number): boolean {
  const found = stat(pid)
  return found !== undefined && found.state !== 'Z' && found.state !== 'X'
}

/** The parent of a process; 0 if the process is gone. */
export const parentOf = (pid: number): number => stat(pid)?.ppid ?? 0

export function descendants (pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    const found = /^\d+$/.test(name) ? stat(Number(name)) : undefined
    if (found !== undefined && found.state !== 'Z') parents.set(Number(name), found.ppid)
  }
  const below = (at: number): number[] => [...parents].filter(([, ppid]) => ppid === at)
    .flatMap(([child]) => [child, ...below(child)])
  return below(pid)
}

export const cmdline = (pid: number): string => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()

/** Pids of a node's runners. */
export function runnersOf (pid: number): number[] {
  const runner = /^\S*node .*runners\/process\/host\.js /
  return descendants(pid).filter((child) => runner.test(`${cmdline(child)} `))
}

/** Resident memory of a process in bytes. */
export function rss (pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024
}

/** Number of a process's open sockets. */
export function sockets (pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
      try { return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:') } catch { return false }
    }).length
  } catch {
    return 0
  }
}

/** TCP ports that a process listens on. */
export function portsOf (pid: number): number[] {
  const rows = ['tcp', 'tcp6'].flatMap((table) => read(`/proc/${pid}/net/${table}`).split('\n'))
    .map((line) => line.trim().split(/\s+/)).filter((columns) => columns[3] === '0A')
  const links = new Map(rows.map((columns) => [`socket:[${columns[9]}]`, columns[1]!]))
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try { return links.get(readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? [] } catch { return [] }
    }).map((address) => parseInt(address.split(':')[1]!, 16)).sort((a, b) => a - b)
  } catch {
    return []
  }
}

/** Sends SIGKILL to a process and its descendants; ignores those that have exited. */
export function hardKill (pid: number): void {
  if (pid <= 0) return
  for (const each of [...descendants(pid).reverse(), pid]) {
    try { process.kill(each, 'SIGKILL') } catch { /* gone */ }
  }
}

export const oomScoreAdj = (pid: number): number => Number(read(`/proc/${pid}/oom_score_adj`))

/** Which of the processes holds the local end of an IPv4 TCP connection; undefined if none of them does. */
export function holderOf (connection: { local: number, remote: number }, pids: readonly number[]):
number | undefined {
  const port = (n: number): string => n.toString(16).toUpperCase().padStart(4, '0')
  const [local, remote] = [`:${port(connection.local)}`, `:${port(connection.remote)}`]
  const inode = read('/proc/net/tcp').split('\n').map((line) => line.trim().split(/\s+/))
    .find((fields) => fields[1]?.endsWith(local) === true && fields[2]?.endsWith(remote) === true)?.[9]
  return inode === undefined ? undefined : pids.find((pid) => {
    try {
      return readdirSync(`/proc/${pid}/fd`).some((fd) => {
        try { return readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]` } catch { return false }
      })
    } catch { return false }
  })
}
