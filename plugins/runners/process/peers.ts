/** Recognises, from /proc, connections to this node that come from runners sharing the node's network. */
import { readdirSync, readlinkSync } from 'node:fs'
import { attempt, processIds, read } from './proc.js'
import type { Arrival } from '../../../kernel/index.js'

/** Stays true once a runner has shared the network, because its descendants may outlive the runner. */
export const networkSharing = { begun: false }
/** Marks a runner in /proc/PID/limits: sandbox.ts sets this limit to 0, and no process can raise it. */
const MARKED = /^Max msgqueue size +0 +0 /m

type Connection = NonNullable<Arrival['connection']>

const known = new WeakMap<Connection, boolean>()

/** True if the peer of a loopback connection is a runner. */
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
  // A socket of another user cannot be a runner's: runners have this node's user and cannot change it.
  if (sockets.length > 0 && sockets.every(({ uid, inode }) => uid !== user && inode !== '0')) return false
  const links = new Set(sockets.map(({ inode }) => `socket:[${inode}]`))
  // A runner can hide its descriptors, so search all processes; newest first, as clients are mostly young.
  const owner = processIds().sort((a, b) => b - a).find((pid) => holds(pid, links))
  return owner === undefined || MARKED.test(read(`/proc/${owner}/limits`) ?? 'Max msgqueue size 0 0 ')
}

const holds = (pid: number, links: ReadonlySet<string>): boolean =>
  attempt(() => readdirSync(`/proc/${pid}/fd`), [])
    .some((fd) => links.has(attempt(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')))
