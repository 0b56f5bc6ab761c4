import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { orElse } from '../api/schema.js'

export interface Holder { pid: number, command: string }

/** State code of listening sockets in /proc/net/tcp. */
const LISTENING = '0A'

/** Inodes of the sockets that listen on a port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes (table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return table.split('\n').slice(1).map((line) => line.trim().split(/\s+/))
    .filter((columns) => columns[1]?.endsWith(suffix) === true && columns[3] === LISTENING)
    .map((columns) => columns[9]!)
}

/** The process that listens on a local TCP port; undefined if none is visible to this user. */
export function portHolder (port: number): Holder | undefined {
  return process.platform === 'linux' ? fromProc(port) : fromLsof(port)
}

export function holderOf (port: number): string {
  const holder = portHolder(port)
  return holder === undefined
    ? 'a process of another user'
    : `process ${holder.pid} (${holder.command.slice(0, 160)})`
}

function fromProc (port: number): Holder | undefined {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6']
    .map((path) => orElse('', () => readFileSync(path, 'utf8')))
  const inodes = tables.flatMap((table) => listeningInodes(table, port))
  const links = new Set(inodes.map((inode) => `socket:[${inode}]`))
  if (links.size === 0) return undefined
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fds = orElse<string[]>([], () => readdirSync(`/proc/${name}/fd`))
    if (fds.some((fd) => links.has(orElse('', () => readlinkSync(`/proc/${name}/fd/${fd}`))))) {
      const words = orElse('', () => readFileSync(`/proc/${name}/cmdline`, 'utf8')).split('\0')
      return { pid: Number(name), command: words.join(' ').trim() }
    }
  }
  return undefined
}

function fromLsof (port: number): Holder | undefined {
  const text = orElse('', () => execFileSync('lsof', ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpc'],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  const pid = /^p(\d+)$/m.exec(text)?.[1]
  return pid === undefined ? undefined : { pid: Number(pid), command: /^c(.*)$/m.exec(text)?.[1] ?? '' }
}
