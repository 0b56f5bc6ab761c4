import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, orElse } from '../api/schema.js'
import { homeFile } from './home.js'

const FILES = [
  'node.json', 'node.key', 'node.crt', 'state/members.json', 'state/promise.json', 'state/control.json'
] as const

/**
 * A missing or damaged file that must not be recreated, with the remedy; null if every file is in order.
 * `joining`: the node is joining a cluster, so it needs no member list. `alone`: the cluster plugin is
 * disabled; by default this is assumed for a home that never had members.
 */
export function missingHomeFile (
  home: string, { joining = false, alone }: { joining?: boolean, alone?: boolean } = {}
): { message: string, remedy: string } | null {
  const paths = FILES.map((file) => join(home, file))
  const [node = '', , certificate = '', members = '', vote = ''] = paths
  const lost = (path: string, trace: string, why: string, remedy: string, how = 'missing') => ({
    message: `${path} is ${how}, but ${trace} exists: this node ${why}.`,
    remedy: `${remedy} Or join as a new node: \`rm -f ${paths.join(' ')}\`, then \`svc up --join TOKEN\` ` +
      'with a token of `svc join-token` on a member.'
  })
  const backup = 'Restore it from a backup'
  if (!existsSync(certificate)) return null
  const id = orElse('ID', () => new X509Certificate(readFileSync(certificate)).subject.replace(/^CN=/, ''))
  if (!existsSync(node)) {
    return lost(node, certificate, `would not be the member ${id}`,
      `${backup}, or run \`echo '{"format":1,"installId":"${id}"}' > ${node}\`.`)
  }
  const decisions = join(home, homeFile.alone)
  // A home that only ran without the cluster plugin has no members yet.
  const wasAlone = existsSync(decisions) && !existsSync(vote) && !existsSync(members)
  if ((alone ?? wasAlone) && existsSync(decisions) && damaged(decisions, isAlone)) {
    return {
      message: `${decisions} is damaged: this node would lose its decisions.`,
      remedy: `${backup}, or move it away to start without the placed models.`
    }
  }
  if (alone === true) return null
  if (!existsSync(members) && !joining && !wasAlone) {
    return lost(members, certificate, 'would start a second cluster', `${backup}.`)
  }
  const count = orElse(0, () => (JSON.parse(readFileSync(members, 'utf8')) as { members: [] }).members.length)
  const problem = voteProblem(vote)
  if (problem === null || count < 2) return null
  return lost(vote, members, 'could vote a second time in one term',
    `A backup would contain only old votes. On another node run \`svc members remove ${id}\`.`, problem)
}

function voteProblem (path: string): 'missing' | 'damaged' | null {
  if (!existsSync(path)) return 'missing'
  return damaged(path, isHardState) ? 'damaged' : null
}

/** Whether a file's contents are invalid. Unreadable files and later formats do not count as damaged. */
function damaged (path: string, isSound: (value: unknown) => boolean): boolean {
  const text = orElse(null, () => readFileSync(path, 'utf8'))
  if (text === null) return false
  const stored = orElse<{ format?: unknown } | null>(null, () => JSON.parse(text) as { format?: unknown })
  return !isSound(stored) && !(Number(stored?.format) > 1)
}

/** Whether a value is a stored vote (Raft's hard state). */
export function isHardState (
  value: unknown
): value is { readonly term: number, readonly votedFor: string | null, readonly boot: number } {
  const { term, votedFor, boot } = (value ?? {}) as Record<string, unknown>
  return isCount(term) && isCount(boot) && (votedFor === null || typeof votedFor === 'string')
}

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0

/** Whether a value is the stored decisions of a lone node. */
function isAlone (value: unknown): boolean {
  const { format, term, entries } = (value ?? {}) as Record<string, unknown>
  return format === 1 && isCount(term) && isObject(entries)
}
