/** With all slots of a model busy, more requests wait, are counted and shown, and the excess is refused. */
import t from 'tap'
import { entries, folder, standIn } from '../../plugins/llama-cpp/test/llama-kit.js'
import { ask, open } from './http.js'
import { fixture, startNode, svc, until } from './kit.js'
import type { IncomingMessage } from 'node:http'

const MODEL = 'test/gguf'
const SLOTS = 2
const WAITING = 3
const config = { plugins: {
  gguf: { module: fixture('gguf.mjs') }, placement: { autoplace: [] },
  // Runners are not confined, because the llama-server stand-in writes its journal outside their folders.
  runners: { confine: false, max_queued: WAITING }
} }
const body = (word: string, more: object = {}) =>
  ({ model: MODEL, messages: [{ role: 'user', content: `please ${word}` }], ...more })

t.test('two slots and five requests', { timeout: 120_000 }, async (t) => {
  const { binary, journal } = standIn(folder(t))
  const node = await startNode(t, { config, env: { SVC_LLAMA_SERVER_BIN: binary }, ready: false })
  const verb = async (...words: string[]) => await svc([...words, '--home', node.home, '--url', node.url])
  const dry = await verb('place', MODEL, '--dry-run')
  t.match(dry, { status: 0, stderr: /\d+ slots x \d+ tokens x [\d.]+ KiB = \d+(\.\d)? \w+ of KV cache/ })
  const placed = await verb('place', MODEL, '--slots', String(SLOTS), '--ctx', '8192')
  t.match(placed, { status: 0, stderr: /; 2 slots x 8192 tokens x / })
  const started = entries(journal).find((entry) => 'start' in entry)?.['start'] as string[]
  t.match(started.join(' '), / --ctx-size 16384 --parallel 2 /, 'the server has as many')

  const streams: { text: string, response: IncomingMessage }[] = []
  const stream = async (): Promise<void> => {
    const response = await open(node, '/v1/chat/completions', { body: body('slow', { stream: true }) })
    const heard = { text: '', response }
    response.on('data', (bytes: Buffer) => { heard.text += bytes.toString() }).on('error', () => {})
    streams.push(heard)
  }
  for (let i = 0; i < SLOTS; i++) await stream()
  await until('both answer', () => streams.every(({ text }) => text.includes('"content":"')))
  for (let i = 0; i < WAITING; i++) await stream()
  const waiting = streams.slice(SLOTS)
  await until('each gets its queue position', () => waiting.every(({ text }) => text.includes(': queue {')))
  t.same(waiting.map(({ text }) => /^: queue (.*)$/m.exec(text)![1]).sort(),
    [1, 2, 3].map((place) => JSON.stringify({ place, slots: SLOTS })))
  t.notOk(waiting.some(({ text }) => text.includes('"content":"')))

  const refused = await ask(node, '/v1/chat/completions', { body: body('go') })
  t.equal(refused.status, 429, refused.text)
  t.match(refused.headers['retry-after'], /^\d+$/)
  t.match(refused.json, {
    error: {
      code: 'rate_limit_exceeded', reason: 'overloaded', details: { running: SLOTS, waiting: WAITING }
    }
  })
  const tokens = await ask(node, '/v1/tokenize', { body: { model: MODEL, prompt: 'hi' } })
  t.match(tokens, { status: 200, json: { count: 3 } }, 'counting takes no slot')

  const { tasks, instances } = (await ask(node, '/state')).json as {
    tasks: Record<string, { Inference: { status: string } }>
    instances: Record<string, { RingInstance: { slots: number, placement: { slots: number } } }>
  }
  const count = (status: string): number =>
    Object.values(tasks).filter((one) => one.Inference.status === status).length
  t.same([count('Running'), count('Pending')], [SLOTS, WAITING])
  t.match(Object.values(instances)[0], { RingInstance: { slots: SLOTS, placement: { slots: SLOTS } } })
  const metrics = (await ask(node, '/metrics')).text
  for (const [name, value] of [['slots', SLOTS], ['slots_used', SLOTS], ['queue_length', WAITING]] as const) {
    t.match(metrics, new RegExp(`^svc_runner_${name}\\{model="test/gguf"\\} ${value}$`, 'm'))
  }
  t.match(await verb('ps'), { stdout: /SLOTS[^]* 2\/2, 3 wait/ })
  t.match(await verb('why', MODEL), {
    stdout: /last inference .*; 3 requests wait for a slot, 2 are running\nnext: .*--slots N/
  })
  t.match(await verb('show', MODEL), { stdout: /SLOTS\n.* 2\n/ })

  streams[0]!.response.destroy()
  streams[1]!.response.destroy()
  await until('two more are answered', () =>
    waiting.filter(({ text }) => text.includes('"content":"')).length === SLOTS)
  await until('the last one moves up', () =>
    waiting.some(({ text }) => /: queue \{"place":1.*$/.test(text.trim())))
  for (const { response } of waiting) response.destroy()
  await until('a request is answered at once again', async () =>
    (await ask(node, '/v1/chat/completions', { body: body('go') })).status === 200)
})
