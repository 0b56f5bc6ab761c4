import t from 'tap'
import { join } from 'node:path'
import { framesSeconds, walkFrames } from '../../plugins/capabilities-tts/test/mp3.js'
import { ELECTION_MS } from './cluster-kit.js'
import { freePorts } from './ports.js'
import { does, report, TTS } from './engine.js'
import { ask, readStream, open, refusal, stream, streamed } from './http.js'
import { faultsConfig, figure, folder, placeOn, secondsSince, startNode, until } from './kit.js'
import { alive, hardKill } from './proc.js'
import type { IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import type { TestNode } from './kit.js'

const VOICE = 'svc/voice-en'
const SENTENCE = 'The quick brown fox jumps over the lazy dog.'
const endless = { bytes: 100, delayMs: 20 }
const endlessBody = { model: 'test/ok', input: 'x',
  instructions: JSON.stringify({ do: 'count', ...endless }) }

interface Said { type?: string, error?: { reason: string, retryable: boolean } }

/** A node without runners, in a cluster with another node. */
async function node (t: Test, name: string, joins?: TestNode): Promise<TestNode> {
  const [api, members] = await freePorts(2)
  const token = joins === undefined ? undefined
    : ((await ask(joins, '/cluster/join-tokens', { body: { local: true } })).json as { token: string }).token
  return await startNode(t, {
    home: join(folder(t), 'home'),
    ready: false,
    config: faultsConfig({ name, cluster: {
      election_timeout_ms: ELECTION_MS, discovery: false, port: members
    } }, { autoplace: [] }),
    args: ['--port', String(api), ...token === undefined ? [] : ['--join', token]]
  })
}

/** Reads a body to its end; `cut`: the connection broke off. */
async function drained (response: IncomingMessage): Promise<{ text: string, cut: boolean }> {
  const parts: Buffer[] = []
  try {
    for await (const part of response) parts.push(part as Buffer)
    return { text: Buffer.concat(parts).toString(), cut: false }
  } catch {
    return { text: Buffer.concat(parts).toString(), cut: true }
  }
}

const tasksOf = async (at: TestNode): Promise<Record<string, unknown>> =>
  ((await ask(at, '/state')).json as { tasks: Record<string, unknown> }).tasks

t.test('a voice on one node speaks through every node', async (t) => {
  const one = await node(t, 'one')
  const two = await node(t, 'two', one)
  const three = await node(t, 'three', one)
  await until('the three to see each other', async () => {
    const seen = await Promise.all([one, two, three].map(async (at) => (await ask(at, '/state')).json as
      { cluster: { liveNodes: number } }))
    return seen.every(({ cluster }) => cluster.liveNodes === 3)
  })
  // The third node has another model ready, so it handles `tts` requests itself.
  await Promise.all([placeOn(two, VOICE), placeOn(two, 'test/ok'), placeOn(three, 'test/b')])
  const speaks = async (at: TestNode, model: string): Promise<boolean> =>
    (await ask(at, `/readyz?model=${encodeURIComponent(model)}`)).status === 200
  for (const at of [one, three]) {
    for (const model of [VOICE, 'test/ok']) await until(`${model} to be known`, () => speaks(at, model))
  }

  await t.test('POST /v1/audio/speech', async (t) => {
    for (const at of [one, three]) {
      const answer = await ask(at, '/v1/audio/speech', { body: { model: VOICE, input: SENTENCE } })
      t.equal(answer.status, 200, answer.text.slice(0, 300))
      const { frames, rest } = walkFrames(answer.bytes)
      t.equal(rest, 0, 'whole MP3 frames')
      t.ok(framesSeconds(frames) > 1)
      const taskId = answer.headers['x-svc-task-id'] as string
      t.match((await tasksOf(two))[taskId], { Inference: { modelId: VOICE, status: 'Complete' } })
      for (const other of [one, three]) {
        await until('the task at the other nodes', async () => taskId in await tasksOf(other))
      }
    }
    const voices = (await ask(one, '/v1/audio/voices')).json as { data: { model: string }[] }
    t.ok(voices.data.some(({ model }) => model === VOICE))
    t.strictSame(one.runners(), [], 'nothing runs where nothing is to run')
  })

  await t.test('POST /v1/capabilities/stream', async (t) => {
    for (const at of [one, three]) {
      const { capabilities } = (await ask(at, '/v1/capabilities')).json as { capabilities: { id: string }[] }
      t.ok(capabilities.some(({ id }) => id === 'tts'), 'offered')
      const heard = await streamed(at, TTS, { model: VOICE, text: SENTENCE })
      t.match([heard.terminals, heard.last?.header.kind], [1, 'completed'])
      t.equal(walkFrames(heard.bytes).rest, 0)
    }
  })

  await t.test('a refusal of the engine keeps its reason and its status', async (t) => {
    const wrong = { body: { model: VOICE, input: 'Hi.', voice: 'nobody' } }
    const answer = await ask(three, '/v1/audio/speech', wrong)
    t.equal(answer.status, 400, answer.text)
    const local = await ask(two, '/v1/audio/speech', wrong)
    t.equal(refusal(answer)?.reason, refusal(local)?.reason)
    t.equal(refusal(answer)?.message, refusal(local)?.message)
    const none = await ask(one, '/v1/audio/speech', { body: { model: 'test/stuck', input: 'x' } })
    t.match([none.status, refusal(none)?.reason], [404, 'no_instance'])
  })

  await t.test('a client that disconnects ends the work at the other node', async () => {
    const working = async (): Promise<number> => (await report(two, 'test/ok')).inProgressTasks.length
    const opened = await open(one, '/v1/audio/speech', { body: endlessBody })
    opened.on('error', () => {})
    await until('the work there', async () => await working() === 1)
    opened.destroy()
    await until('its end', async () => await working() === 0)
  })

  await t.test('kill -9 of the node in the middle', async (t) => {
    const events = await open(one, '/v1/audio/speech', { body: { ...endlessBody, stream_format: 'sse' } })
    const sound = await open(one, '/v1/audio/speech', { body: endlessBody })
    t.strictSame([events.statusCode, sound.statusCode], [200, 200])
    const [said, heardSound] = [drained(events), drained(sound)]
    const framed = await Promise.all([one, three].map(async (at) => {
      const opened = await stream(at, TTS, does('test/ok', 'count', endless))
      await opened.frames.next()
      await opened.frames.next()
      return { end: readStream(opened) }
    }))
    const start = performance.now()
    hardKill(two.child.pid)
    hardKill(two.pid)
    const { text, cut } = await said
    const last = text.split('\n').filter((line) => line.startsWith('data: ')).map((line) =>
      JSON.parse(line.slice(6)) as Said).at(-1)
    t.notOk(cut, 'the events end with the error')
    t.match(last, { error: { reason: 'instance_lost', retryable: true } })
    t.ok((await heardSound).cut, 'the sound is cut, never a clean end')
    for (const { end } of framed) {
      const { terminals, last } = await end
      t.equal(terminals, 1)
      t.match(last?.header, { kind: 'failed', error: { reason: 'instance_lost', retryable: true } })
    }
    figure(t, 'a stream whose node was killed', t.passing(), { endedAfterSeconds: secondsSince(start) })
    await until('its end', () => !alive(two.pid))
    await until('a refusal that names the missing memory: every other node was excluded', async () => {
      const answer = await ask(three, '/v1/audio/speech', { body: { model: VOICE, input: 'x' } })
      return answer.status === 503 && refusal(answer)?.reason === 'no_instance'
    })
  })
})
