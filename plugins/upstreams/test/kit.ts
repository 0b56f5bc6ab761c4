/** A fake server with OpenAI's API, and the plugin on the real kernel with chat, runners and approvals. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../../../kernel/api/clock.js'
import { startPlugin, type Rig, type StartOptions, type TestContext } from '../../../kernel/testing/index.js'
import approvals from '../../approvals/index.js'
import chat from '../../chat/index.js'
import { createRunners } from '../../runners/index.js'
import { bundle, ensure, FakeRunner, noGpus } from '../../runners/test/rig.js'
import { card, machine } from '../../runners/test/samples.js'
import plugin from '../index.js'

export interface Asked { url: string, headers: IncomingMessage['headers'], body: Record<string, unknown> }
type Answer = (response: ServerResponse, asked: Asked) => void

export const event = (delta: object, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`
export const END = `${event({}, { finish_reason: 'stop' })}data: ${JSON.stringify(
  { choices: [], usage: { prompt_tokens: 7, completion_tokens: 2 } })}\n\ndata: [DONE]\n\n`
export const HELLO =
  event({ role: 'assistant', content: '' }) + event({ content: 'Hel' }) + event({ content: 'lo' })

/** Answers chats with `answer`, and lists one model. */
export async function fakeServer (t: TestContext, answer: Answer = say(HELLO + END)) {
  const asked: Asked[] = []
  const state = { answer, closed: 0, models: { data: [{ id: 'm', context_length: 4000 }] } as unknown }
  const server = createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const { url = '', headers } = request
      if (url.endsWith('/models')) {
        response.end(JSON.stringify(state.models))
        return
      }
      const one = { url, headers, body: JSON.parse(Buffer.concat(parts).toString()) as Asked['body'] }
      asked.push(one)
      response.on('close', () => { if (!response.writableFinished) state.closed++ })
      state.answer(response, one)
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ;(t.teardown ?? t.after)?.call(t, () => { server.closeAllConnections(); server.close() })
  const { port } = server.address() as AddressInfo
  return { asked, state, server, url: `http://127.0.0.1:${port}/v1` }
}

/** Sends a text, and ends the response unless `open`. */
export const say = (
  text: string, { status = 200, open = false, headers = {} } = {}
): Answer => (response) => {
  response.writeHead(status, { 'content-type': 'text/event-stream', ...headers })
  if (open) response.write(text)
  else response.end(text)
}

export interface Started extends Rig { runners: FakeRunner[] }

export async function start (
  t: TestContext, config: Record<string, unknown>, more: StartOptions & { place?: boolean } = {}
): Promise<Started> {
  const runners: FakeRunner[] = []
  const local = card('acme/local', { tasks: ['chat'] })
  const runnersPlugin = createRunners({
    createSupervisor: (made) => {
      const runner = new FakeRunner(made)
      runners.push(runner)
      return runner
    },
    files: machine(), uid: 1000, bundle: bundle([local]), reader: noGpus
  })
  const { place = false, ...options } = more
  const rig = await startPlugin(t, plugin, {
    clock: systemClock, plugins: [runnersPlugin, approvals, chat], config, ...options
  })
  if (place) {
    await ensure(rig, 'acme/local')
    while (runners.length === 0) await pause()
    runners[0]!.ready()
  }
  return { ...rig, runners }
}

export const pause = async (ms = 5): Promise<unknown> =>
  await new Promise((resolve) => setTimeout(resolve, ms))

/** Waits until `look` is true; the limit is the test's own. */
export async function until (look: () => boolean | Promise<boolean>): Promise<void> {
  while (!await look()) await pause()
}

export const ask = async (
  rig: Rig, model: string, more: object = {}, headers: Record<string, string> = {}
) =>
  await rig.inject({
    method: 'POST', url: '/v1/chat/completions', headers,
    payload: { model, messages: [{ role: 'user', content: 'hi' }], ...more }
  })
