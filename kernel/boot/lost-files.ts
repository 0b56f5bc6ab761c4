import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { homeFile } from './home.js'

/** Files of a member that a start must not make anew. */
const [CERTIFICATE, MEMBERS, VOTE, CONTROL] =
  ['node.crt', 'state/members.json', 'state/promise.json', 'state/control.json'] as const

export interface LostFile { message: string, remedy: string }

/**
 * The file that a home has lost, although the node can be itself only with it; null when it has all. `joining`:
 * the node joins a cluster now, so it needs no list of members.
 */
export function lostFile (home: string, joining = false): LostFile | null {
  const has = (file: string): boolean => existsSync(join(home, file))
  const lost = (file: string, trace: string, why: string, remedy: string): LostFile => ({
    message: `${join(home, file)} is missing, ${join(home, trace)} is there: ${why}`,
    remedy: `${remedy} To join as a new node instead: rm -f ` +
      `${[homeFile.node, 'node.key', CERTIFICATE, MEMBERS, VOTE, CONTROL].map((one) => join(home, one)).join(' ')}` +
      ', then `svc up --join TOKEN` with a token of `svc join-token` on a member.'
  })
  if (!has(CERTIFICATE)) return null
  const id = installIdIn(join(home, CERTIFICATE))
  if (!has(homeFile.node)) {
    return lost(homeFile.node, CERTIFICATE, `this node would be another one than the member ${id}.`,
      `Restore it from a backup, or run \`echo '{"format":1,"installId":"${id}"}' > ${join(home, homeFile.node)}\`.`)
  }
  if (!has(MEMBERS) && !joining) {
    return lost(MEMBERS, CERTIFICATE, 'this node would be a second cluster.', 'Restore it from a backup.')
  }
  if (!has(VOTE) && has(CONTROL) && memberCount(join(home, MEMBERS)) > 1) {
    return lost(VOTE, CONTROL, 'this node could vote a second time in one term.',
      `A backup does not help, since its votes are old. On another node: \`svc members remove ${id}\`.`)
  }
  return null
}

function installIdIn (certificate: string): string {
  try {
    return new X509Certificate(readFileSync(certificate)).subject.replace(/^CN=/, '')
  } catch {
    return 'ID'
  }
}

function memberCount (path: string): number {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { members: unknown[] }).members.length
  } catch {
    return 0
  }
}
