import t from 'tap'
import { randomUUID } from 'node:crypto'
import { WebSocket } from 'ws'
import { decodeFrame } from '../../plugins/capabilities/frames/frames.js'
import { startCluster, openSpeech } from './cluster-kit.js'
import { does, TTS } from './engine.js'
import { ask, call, readStream, open, refusal, stream, streamed } from './http.js'
import { faultsConfig, figure, pick, placeOn, secondsSince, sleep, until, type TestNode } from './kit.js'
import type { IncomingMessage } from 'node:http'

/** How a stream ended for its client. `cut`: the connection broke off. */
interface End { terminals: number, reason: string | null, retryable: boolean | null, cut: boolean }

/** A stream that lasts until its session ends. */
interface Open { framing: string, end: Promise<End> }

interface ErrorParts { reason: string, retryable: boolean }
interface Said { kind?: string, type?: string, error?: ErrorParts | null }

const TERMINAL = new Set(['completed', 'failed', 'cancelled', 'speech.audio.done'])
const endless = does('test/ok', 'count', { bytes: 100, delayMs: 20 })
const endlessText = JSON.stringify({ do: 'count', bytes: 100, delayMs: 20 })

/** Derives the end of a stream from its frames or events. */
function ending (said: readonly Said[], cut: boolean): End {
  const terminals = said.filter(({ kind, type, error }) => TERMINAL.has(kind ?? type ?? '') ||
    (kind === undefined && type === undefined && error != null))
  const error = terminals.at(-1)?.error
  const { reason = null, retryable = null } = error ?? {}
  return { terminals: terminals.length, reason, retryable, cut }
}

/** Reads a body to its end as text. */
async function drained (response: IncomingMessage): Promise<{ text: string, cut: boolean }> {
  const parts: Buffer[] = []
  try {
    for await (const part of response as AsyncIterable<Buffer>) parts.push(part)
    return { text: Buffer.concat(parts).toString(), cut: false }
  } catch {
    return { text: Buffer.concat(parts).toString(), cut: true }
  }
}

async function events (response: IncomingMessage): Promise<End> {
  const { text, cut } = await drained(response)
  const said = text.split('\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)) as Said)
  return ending(said, cut)
}

async function framed (node: TestNode, extra: Record<string, unknown> = {}): Promise<Open> {
  const opened = await stream(node, TTS, endless, { extra })
  await opened.frames.next()
  const end = readStream(opened).then(({ frames, terminals }) =>
    ending(frames.map(({ header }) => header as Said), terminals === 0))
  return { framing: 'frames', end }
}

async function asEvents (node: TestNode): Promise<Open> {
  const response = await open(node, '/v1/capabilities/stream',
    { body: call(node, TTS, endless), headers: { accept: 'text/event-stream' } })
  return { framing: 'events', end: events(response) }
}

async function asOpenAi (node: TestNode): Promise<Open> {
  const response = await open(node, '/v1/audio/speech',
    { body: { model: 'test/ok', input: 'x', stream_format: 'sse', instructions: endlessText } })
  return { framing: 'openai', end: events(response) }
}

async function asSound (node: TestNode): Promise<Open> {
  const response = await open(node, '/v1/audio/speech',
    { body: { model: 'test/ok', input: 'x', instructions: endlessText } })
  const end = drained(response).then(({ cut }) => ending([], cut))
  return { framing: response.statusCode === 200 ? 'sound' : `sound refused: ${response.statusCode}`, end }
}

async function asMessages (node: TestNode): Promise<Open> {
  const ws = new WebSocket(`${node.url.replace('http', 'ws')}/v1/capabilities/session`,
    { headers: { authorization: `Bearer ${node.token}` } })
  const said: Said[] = []
  const end = new Promise<End>((resolve) => {
    let cut = false
    ws.on('error', () => { cut = true })
    ws.on('close', () => { resolve(ending(said, cut)) })
    ws.on('message', (data: Buffer) => {
      said.push(decodeFrame(data).header)
      // Closes the WebSocket only after a wait in which a second terminal frame would arrive.
      if (ending(said, false).terminals > 0) setTimeout(() => { ws.close() }, 500).unref()
    })
  })
  await new Promise((resolve, reject) => { ws.once('open', resolve); ws.once('error', reject) })
  ws.send(JSON.stringify({ kind: 'call', ...call(node, TTS, endless, { call_id: randomUUID() }) }))
  await until('the first message', () => said.length > 1)
  return { framing: 'messages', end }
}

/** A non-streaming request, whose response headers wait for the first byte, here for a minute. */
function held (node: TestNode): Promise<Awaited<ReturnType<typeof ask>>> {
  return ask(node, '/v1/audio/speech', { body: { model: 'test/ok', input: 'x',
    instructions: JSON.stringify({ do: 'late', delayMs: 60_000 }) } })
}

/** How a stream from a runner on the dead node may end; usually `instance_lost` precedes the new session. */
const ENDS = ['session_changed', 'instance_lost']

t.test('open streams and the end of their session', async (t) => {
  const cluster = await startCluster(t, { config: faultsConfig({
    limits: { calls_at_once: 256, streams_per_token: 1024 }
  }, { max_concurrent: 256, autoplace: [] }) })
  await Promise.all(cluster.members.map((m) => placeOn(m.node, 'test/ok')))
  const before = await cluster.agreed()
  const [one, two] = before.others
  const runners = before.others.map((m) => m.node.runners()[0])
  const instances = Object.keys((await one!.state())!.instances)
  t.ok(instances.length >= 3, 'each node has its instance')

  const follow = await open(one!.node, '/state?follow=1')
  let seen = ''
  let over = false
  follow.on('data', (bytes: Buffer) => { seen += bytes.toString() })
  follow.on('close', () => { over = true })
  await until('the first state', () => seen.includes(before.sessionId))
  const log = await open(two!.node, '/events?follow=1')
  let logged = ''
  log.on('data', (bytes: Buffer) => { logged += bytes.toString() })

  const survivors: Open[] = []
  for (let n = 0; n < pick(1, 12); n++) {
    for (const { node } of before.others) {
      survivors.push(await framed(node), await asEvents(node), await asOpenAi(node), await asSound(node),
        await asMessages(node))
    }
  }
  const across = await framed(one!.node, { target_node: two!.node.nodeId })
  const toMaster = await framed(one!.node, { target_node: before.master.node.nodeId })
  const doomed: Open[] = []
  for (let n = 0; n < pick(2, 80); n++) doomed.push(await framed(before.master.node))
  const waiting = before.others.map(({ node }) => held(node))
  const whole = await streamed(one!.node, TTS, does('test/ok', 'count', { chunks: 2 }))
  t.equal(whole.last?.header.kind, 'completed')
  t.strictSame(survivors.filter(({ framing }) => framing.includes('refused')), [])

  const start = performance.now()
  await before.master.kill()
  const next = await cluster.agreed({ not: before.sessionId })

  const enough = new AbortController()
  const late = sleep(15_000, enough.signal).then(() => 'hangs' as const)
  const inTime = async (opened: Open): Promise<End | 'hangs'> => await Promise.race([opened.end, late])
  let hung = 0
  let wrong = 0
  for (const opened of [...survivors, across]) {
    const end = await inTime(opened)
    if (end === 'hangs') { hung++; continue }
    const fine = opened.framing === 'sound'
      ? end.cut
      : end.terminals === 1 && ENDS.includes(end.reason ?? '') && end.retryable
    if (!fine) wrong++
    t.ok(fine, `${opened.framing}: ${JSON.stringify(end)}`)
  }
  const lost = await inTime(toMaster)
  t.match(lost, { terminals: 1, retryable: true }, 'a call to the node that died has one end')
  t.match((lost as End).reason, /^(session_changed|instance_lost|unreachable)$/)
  for (const opened of doomed) {
    const end = await inTime(opened)
    if (end === 'hangs') hung++
    else if (!end.cut || end.terminals !== 0) wrong++
  }
  const lastEnd = secondsSince(start)
  enough.abort()
  for (const request of waiting) {
    const answer = await request
    const { reason, retryable } = refusal(answer)!
    t.ok(ENDS.includes(reason) && retryable, `${answer.status} ${reason}`)
    t.equal(answer.status, reason === 'session_changed' ? 503 : 500)
    if (reason === 'session_changed') t.equal(answer.headers['retry-after'], '1')
  }
  figure(t, 'T-R13', t.passing() && hung === 0 && wrong === 0, {
    streams: survivors.length + doomed.length + 2, hung, wrong, lastEndSeconds: lastEnd
  })

  await t.test('T-E15: placed instances are present, and speak', async (t) => {
    const after = (await one!.state())!
    const kept = Object.keys(after.instances)
    t.ok(before.others.every((m) => kept.some((id) =>
      JSON.stringify(after.instances[id]).includes(m.node.nodeId))), 'an instance on each node that lives')
    t.ok(kept.filter((id) => instances.includes(id)).length >= 2, 'ids are carried')
    t.strictSame(before.others.map((m) => m.node.runners()[0]), runners, 'the runners are the same')
    const answered = await Promise.all(before.others.map(async ({ node }) =>
      await streamed(node, TTS, does('test/ok', 'count', { chunks: 3 }))))
    t.strictSame(answered.map((h) => h.last?.header.kind), ['completed', 'completed'])
    figure(t, 'T-E15', t.passing(), { secondsToSpeech: secondsSince(start), kept: kept.length })
  })

  await t.test('followers of the state stay connected', async (t) => {
    await until('the new session on the open stream', () => seen.includes(next.sessionId))
    t.notOk(over, '/state?follow=1 goes on')
    await until('the event', () => logged.includes('SessionChanged') && logged.includes(next.sessionId))
    follow.destroy()
    log.destroy()
  })

  await t.test('streams of the next session continue', async (t) => {
    const opened = await openSpeech(one!)
    await before.master.start()
    await cluster.agreed()
    const { value } = await opened.frames.next()
    t.equal((value as { header: { kind: string } }).header.kind, 'chunk', 'a node that joins ends nothing')
    opened.abort()
  })
})
