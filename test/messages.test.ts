import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { schemaChecker } from '../kernel/api/validate.js'
import { messageReader } from '../plugins/event-log/replication/messages.js'
import { isGossip } from '../plugins/runners/routing/remote/gossip.js'
import { problemOf as downloadsProblem } from '../plugins/staging/peers/progress-gossip.js'
import { problemOf as chunksProblem } from '../plugins/staging/transfer/holdings.js'
import { MESSAGES as election, readMessage } from '../plugins/cluster/election/protocol.js'
import { bodySchema as telemetry } from '../plugins/cluster/gossip.js'
import { requestSchema as join } from '../plugins/cluster/identity/join-tokens.js'
import { decodeFrame, greetingSchema as hello, PROTOCOL } from '../plugins/cluster/links/frames.js'
import { listSchema as members } from '../plugins/cluster/members/member.js'
import { MESSAGES as document, readDocMessage } from '../plugins/cluster/replicas/messages.js'
import { problem } from '../plugins/cluster/wire.js'
import { recorded } from './recorded.js'

const readEvents = messageReader({ checker: schemaChecker })

/** The declared schemas of all messages between nodes. */
const shapes = JSON.parse(JSON.stringify({ election, document, hello, telemetry, join, members })) as object

/** The recorded schemas of a protocol version and, if it was released, base64 frames that its nodes sent. */
const said = (protocol: number): { shapes: object, frames: string[] } =>
  recorded(`messages-${protocol}`) as never

/** Keys whose objects have fields or message kinds as keys; all other objects have schema keywords. */
const NAMED = new Set(['properties', 'election', 'document'])

/** The schemas in `now`, without the fields and message kinds that `before` does not have. */
function known (now: unknown, before: unknown, key = ''): unknown {
  if (typeof now !== 'object' || now === null || Array.isArray(now)) return now
  const old = (before ?? {}) as Record<string, unknown>
  return Object.fromEntries(Object.entries(now).filter(([name]) => !NAMED.has(key) || name in old)
    .map(([name, inner]) => [name, known(inner, old[name], name)]))
}

t.test('a message changes with the protocol version, and only by optional fields', (t) => {
  const now = '.tap/messages.json'
  mkdirSync('.tap', { recursive: true })
  writeFileSync(now, JSON.stringify({ shapes }))
  t.strictSame(shapes, said(PROTOCOL).shapes, 'as recorded; after a change raise PROTOCOL, keep the ' +
  `frames of the last release, and make ${now} test/recorded/messages-${PROTOCOL + 1}.json`)
  t.strictSame(known(shapes, said(PROTOCOL - 1).shapes), said(PROTOCOL - 1).shapes)
  t.end()
})

t.test('messages of the last release are understood', (t) => {
  const kinds = new Set<string>()
  const channels: Record<string, (message: unknown) => boolean> = {
    'kernel.members': (message) => problem(members, message) === null,
    'kernel.digest': (message) => 'observed' in (message as object) && 'control' in (message as object),
    'kernel.leaving': (message) => message === null,
    // No longer received: messages of a channel without a receiver are ignored.
    'audit.heads': () => true,
    'event-log': (message) => readEvents(message) !== null,
    'runners.tasks': (message) => isGossip(message) || (message as { whole: unknown }).whole === 'please',
    'staging.chunks': (message) => chunksProblem(message) === null,
    'staging.downloads': (message) => downloadsProblem(message) === null
  }
  for (const frame of said(PROTOCOL - 1).frames) {
    const { kind, body } = decodeFrame(new Uint8Array(Buffer.from(frame, 'base64')))
    const { kind: name = kind, channel, message } = (body ?? {}) as Record<string, string>
    kinds.add(channel ?? name)
    const fits = kind === 'hello' ? problem(hello, body) === null
      : kind === 'election' ? readMessage(body) !== null
        : kind === 'document' ? readDocMessage(body) !== null
          : kind === 'telemetry' ? problem(telemetry, body) === null
            : kind === 'channel' ? channels[channel!]!(message) : typeof body === 'number'
    t.ok(fits, `${kind} ${channel ?? name}`)
  }
  const all = ['hello', 'telemetry', 'ping', 'pong', ...[election, document, channels].flatMap(Object.keys)]
  t.strictSame(all.filter((kind) => !kinds.has(kind)), ['stale'], 'one of each was recorded, but the rarest')
  t.end()
})
