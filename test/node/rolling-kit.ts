/** Clients that send speech and chat requests to every node of a cluster, and a check of the outcomes. */
import { open, refusal, readBody } from './http.js'
import { sleep } from './kit.js'
import type { IncomingMessage } from 'node:http'
import type { Member } from './cluster-kit.js'

/** One attempt to get an answer from one node; times are from performance.now(). */
export interface Attempt {
  at: Member
  kind: string
  from: number
  to: number
  /** `ok`, `unheard` (no answer), `cut` (broken off in the middle), or the reason for a refusal. */
  outcome: string
  status: number | null
  retryable: boolean
  /** Whether the response had Retry-After, which is impossible once a stream has begun. */
  retryAfter: boolean
  detail: string
}

/** A node's absence, from the signal that ends it until its models are back in place. */
export interface Outage { member: Member, how: 'restart' | 'kill', master: boolean, from: number, to: number,
  /** Seconds from the signal to each phase: exit, others agree, start, all agree, models in place. */
  phases: number[] }

export interface Load {
  readonly attempts: readonly Attempt[]
  /** Number of requests that were answered, after one or more tries. */
  done (): number
  /** Requests that were still unanswered after a minute of retries. */
  readonly given: readonly string[]
  stop (): Promise<void>
}

interface Ask { kind: string, path: string, body: object, streams: boolean }

const QUESTION = [{ role: 'user', content: 'what is no_quorum' }]
const SENTENCE = 'The quick brown fox jumps over the lazy dog.'

/** Requests to the embedded voice and the embedded language model, each with and without a stream. */
const ASKS: readonly Ask[] = [
  { kind: 'speech', path: '/v1/audio/speech', streams: false,
    body: { model: 'svc/voice-en', input: SENTENCE, response_format: 'wav' } },
  { kind: 'speech stream', path: '/v1/audio/speech', streams: true,
    body: { model: 'svc/voice-en', input: SENTENCE, stream_format: 'sse' } },
  { kind: 'chat', path: '/v1/chat/completions', streams: false,
    body: { model: 'svc/guide', max_tokens: 24, messages: QUESTION } },
  { kind: 'chat stream', path: '/v1/chat/completions', streams: true,
    body: { model: 'svc/guide', max_tokens: 24, stream: true, messages: QUESTION } }
]

/** Time in ms for which a client retries a retryable error. */
const PATIENCE_MS = 60_000

/** Runs each kind of request in `clients` clients, which use the nodes in rotation. */
export function mixedLoad (members: readonly Member[], clients: number): Load {
  const attempts: Attempt[] = []
  const given: string[] = []
  let done = 0
  let on = true
  const client = async (asked: Ask, first: number): Promise<void> => {
    for (let turn = first; on; turn++) {
      const since = performance.now()
      for (;;) {
        const attempt = await tried(members[turn % members.length]!, asked)
        attempts.push(attempt)
        if (attempt.outcome === 'ok') { done++; break }
        if (performance.now() - since > PATIENCE_MS) {
          given.push(JSON.stringify(describeAttempt(attempt)))
          break
        }
        turn++
        await sleep(200)
      }
      await sleep(20)
    }
  }
  const work = ASKS.flatMap((asked, kind) =>
    Array.from({ length: clients }, async (_, n) => { await client(asked, kind + n) }))
  return { attempts, given, done: () => done, async stop () { on = false; await Promise.all(work) } }
}

async function tried (at: Member, { kind, path, body, streams }: Ask): Promise<Attempt> {
  const from = performance.now()
  const end = (outcome: string, more: Partial<Attempt> = {}): Attempt => ({
    at, kind, from, to: performance.now(), outcome, status: null, retryable: false, retryAfter: false,
    detail: '', ...more
  })
  let response: IncomingMessage
  try {
    response = await open(at.node, path, { body, headers: { 'x-svc-retry': '1' } })
  } catch (error) {
    return end('unheard', { detail: String(error) })
  }
  const status = response.statusCode ?? 0
  let text: string
  try {
    text = (await readBody(response)).toString(streams || status !== 200 ? 'utf8' : 'latin1')
  } catch (error) {
    return end('cut', { status, detail: String(error) })
  }
  if (status === 200) return streams ? streamEnd(text, end) : end('ok', { status })
  let json: unknown
  try { json = JSON.parse(text) } catch { /* reported below */ }
  const said = refusal({ json })
  return end(said?.reason ?? 'no reason', {
    status, retryable: said?.retryable === true, detail: text.slice(0, 400),
    retryAfter: Number(response.headers['retry-after']) >= 1
  })
}

function streamEnd (text: string, end: (outcome: string, more?: Partial<Attempt>) => Attempt): Attempt {
  const lines = text.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6))
  const failed = lines.flatMap((line) => {
    try {
      const { error } = JSON.parse(line) as { error?: { reason: string, retryable: boolean } }
      return error === undefined ? [] : [error]
    } catch { return [] }
  })
  const detail = lines.at(-1)?.slice(0, 400) ?? ''
  if (failed.length > 0) {
    return end(failed.length > 1 ? 'two errors' : failed[0]!.reason,
      { status: 200, retryable: failed[0]!.retryable, retryAfter: true, detail })
  }
  const complete = lines.at(-1) === '[DONE]' || lines.some((line) => line.includes('"speech.audio.done"'))
  return complete ? end('ok', { status: 200 }) : end('no end', { status: 200, detail })
}

const overlaps = (a: { from: number, to: number }, b: { from: number, to: number }): boolean =>
  a.from <= b.to && b.from <= a.to

/** An attempt as messages show it, with the node's name instead of the member. */
export const describeAttempt = ({ at, ...rest }: Attempt): object => ({ node: at.name, ...rest })

/**
 * Returns the attempts with a forbidden outcome. A node that is stopping or absent may refuse and, if killed,
 * cut answers off. Other nodes must answer; only requests that end with a session or ran on a killed node may
 * fail, as retryable. Audio that has begun cannot carry an error, so it is cut off.
 */
export function wrong (attempts: readonly Attempt[], outages: readonly Outage[]): Attempt[] {
  return attempts.filter((attempt) => {
    const { outcome, retryable, retryAfter } = attempt
    if (outcome === 'ok') return false
    const over = outages.filter((outage) => overlaps(attempt, outage))
    const own = over.find(({ member }) => member === attempt.at)
    if (outcome === 'unheard') return own === undefined
    const sessionEnds = over.some(({ master }) => master)
    const lost = over.some(({ how, from }) => how === 'kill' && attempt.from <= from)
    if (outcome === 'no end') return own?.how !== 'kill'
    if (outcome === 'cut') {
      return !(own?.how === 'kill' || (attempt.kind === 'speech' && (sessionEnds || lost)))
    }
    if (!retryable || !retryAfter) return true
    if (own !== undefined) return false
    return !(outcome === 'session_changed' && sessionEnds) && !(outcome === 'instance_lost' && lost)
  })
}
