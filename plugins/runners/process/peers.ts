/** Recognises, from /proc, connections to this node from runners that share its network. */
import { readdirSync, readlinkSync } from 'node:fs'
import { processIds, read } from './proc.js'
import type { Arrival } from '../../../kernel/index.js'

/** Stays true once a runner that shares the network has started: its descendants may outlive it. */
export const networkSharing = { begun: false }
/** A limit that sandbox.ts sets to 0 and that no process can raise. */
const MARKED = /^Max msgqueue size +0 +0 /m

type Connection = NonNullable<Arrival['connection']>

const known = new WeakMap<Connection, boolean>()

/** Whether the peer of a loopback connection is a runner. */
export function ofRunner (connection: Connection): boolean {
  // A request injected by a test has no ports.
  if (!networkSharing.begun || connection.remotePort === undefined) return false
  const found = known.get(connection) ?? holdsOtherEnd(connection)
  known.set(connection, found)
  return found
}

function holdsOtherEnd ({ remotePort = 0, localPort = 0 }: Connection): boolean {
  const [from, to] = [remotePort, localPort]
    .map((port) => `:${port.toString(16).toUpperCase().padStart(4, '0')}`)
  const sockets = ['tcp', 'tcp6'].flatMap((table) => (read(`/proc/self/net/${table}`) ?? '').split('\n'))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, remote]) => local?.endsWith(from!) === true && remote?.endsWith(to!) === true)
    .map(({ 7: uid, 9: inode }) => ({ uid: Number(uid), inode }))
  const user = process.getuid?.()
  // Runners have this user and cannot switch to another.
  if (sockets.length > 0 && sockets.every(({ uid, inode }) => uid !== user && inode !== '0')) return false
  const links = new Set(sockets.map(({ inode }) => `socket:[${inode}]`))
  // A runner can hide its descriptors, so search for any other owner. Clients are mostly young processes.
  const owner = processIds().sort((a, b) => b - a).find((pid) => holds(pid, links))
  return owner === undefined || MARKED.test(read(`/proc/${owner}/limits`) ?? 'Max msgqueue size 0 0 ')
}

function holds (pid: number, links: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => links.has(linkOf(`/proc/${pid}/fd/${fd}`)))
  } catch {
    return false
  }
}

function linkOf (path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
