import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { duplexPair } from './duplex-pair.js'
import t from 'tap'
import WebSocket from 'ws'
import { CallerService, definePlugin, ListenerService, type Arrival, type CallerScheme } from '../index.js'
import { startPlugin, type Rig, type TestContext } from '../testing/index.js'
import type { Duplex } from 'node:stream'

const body = { type: 'object', additionalProperties: false, properties: { n: { type: 'integer' } } } as const
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

/** A scheme whose credentials name the caller and, optionally, the body's hash: `who;sha256`. */
const scheme = (ended: Set<string>, seen: Arrival[]): CallerScheme => ({
  word: 'TEST1', bearer: 'svc_test_',
  check (arrival, credential) {
    seen.push(arrival)
    const [who = '', hash] = credential.replace('svc_test_', '').split(';')
    if (who === 'wrong' || ended.has(who)) return undefined
    if (arrival.device !== null && arrival.device !== who) return undefined
    const caller = {
      id: who, mode: arrival.device === null ? 'paired' as const : 'relay' as const,
      authorities: new Set(['read', 'invoke'])
    }
    return hash === undefined ? { caller } : { caller, bodySha256: Buffer.from(hash, 'base64url') }
  },
  stands: (id) => id.startsWith('dev-') ? !ended.has(id) : undefined,
  makerOf: () => undefined
})

const probe = (ended: Set<string>, seen: Arrival[], reached: unknown[] = []) => definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Knows devices.',
  consumes: { callers: CallerService },
  routes: {
    who: { method: 'GET', url: '/who', summary: 's', authority: null },
    take: {
      method: 'POST', url: '/take', summary: 's', authority: 'invoke', body, query: { type: 'object' }
    },
    place: { method: 'POST', url: '/place', summary: 's', authority: 'cluster:write' },
    drop: { method: 'DELETE', url: '/drop', summary: 's', authority: 'invoke' },
    wait: { method: 'GET', url: '/wait', summary: 's', authority: 'read' },
    follow: { method: 'GET', url: '/follow', summary: 's', authority: 'read', stream: true }
  }
}, ({ deps, effect }) => {
  effect('scheme', deps.callers!.register(scheme(ended, seen)))
  const reach = (value: unknown): object => { reached.push(value); return {} }
  return {
    routes: {
      who: ({ caller: { id, mode } }) => ({ id, mode }),
      take: ({ body }) => reach(body),
      place: () => ({}),
      drop: () => reach('drop'),
      wait: async ({ signal }) => await new Promise((_, fail) => {
        signal.addEventListener('abort', () => { fail(signal.reason as Error) })
      }),
      follow: async (request) => {
        const writer = request.open({ contentType: 'text/event-stream' })
        await writer.write(': hello\n\n')
        // Never resolves, to show that a handler which ignores its signal is still ended.
        await new Promise(() => {})
      }
    }
  }
})

t.test('a body that is not the one that was signed never reaches its handler', async (t) => {
  const seen: Arrival[] = []
  const reached: unknown[] = []
  const rig = await startPlugin(t, probe(new Set(), seen, reached))
  const sent = '{"n":1}'
  const signed = (text: string): string => `TEST1 dev-a;${sha256(text).toString('base64url')}`
  type Row = [
    title: string, method: string, url: string, authorization: string, payload: string | undefined,
    status: number
  ]
  const rows: Row[] = [
    ['the body', 'POST', '/take?x=1', signed(sent), sent, 200],
    ['another body', 'POST', '/take', signed(sent), '{"n":2}', 401],
    ['no body', 'POST', '/take', signed(sent), undefined, 401],
    ['an empty body', 'POST', '/take', signed(sent), '', 401],
    ['a body where none was signed', 'POST', '/take', signed(''), sent, 401],
    ['no body where none was signed', 'DELETE', '/drop', signed(''), undefined, 200],
    ['no body where one was signed', 'DELETE', '/drop', signed(sent), undefined, 401],
    ['one added to a DELETE', 'DELETE', '/drop', signed(''), sent, 401],
    ['a bearer says nothing of bodies', 'POST', '/take', 'Bearer svc_test_dev-a', sent, 200],
    ['an authority that the device lacks', 'POST', '/place', 'TEST1 dev-a', undefined, 403],
    ['a wrong credential', 'GET', '/who', 'TEST1 wrong', undefined, 401]
  ]
  for (const [title, method, url, authorization, payload, status] of rows) {
    const type = payload === undefined ? {} : { 'content-type': 'application/json' }
    const answer = await rig.inject({ method, url, payload, headers: { authorization, ...type } })
    t.equal(answer.statusCode, status, `${title}: ${answer.body}`)
  }
  t.same(reached, [{ n: 1 }, 'drop', { n: 1 }])
  t.match(seen[0], { method: 'POST', target: '/take?x=1', device: null })
})

/** Sends a request over a given connection, or over TCP, and returns the answer. */
async function ask (
  at: { url?: string, connection?: Duplex }, path: string, authorization?: string
): Promise<IncomingMessage> {
  const { connection, url = 'http://any' } = at
  const call = request(new URL(path, url), {
    headers: authorization === undefined ? {} : { authorization },
    ...connection === undefined ? {} : { createConnection: () => connection }
  })
  call.end()
  const [response] = await once(call, 'response') as [IncomingMessage]
  return response
}

async function json (response: IncomingMessage): Promise<Record<string, unknown>> {
  let text = ''
  for await (const part of response) text += String(part)
  return JSON.parse(text) as Record<string, unknown>
}

t.test('a relayed connection has the rights of its device, and no others', async (t) => {
  const rig = await startPlugin(t, probe(new Set(), []))
  const over = async (authorization?: string): Promise<unknown[]> => {
    const [here, there] = duplexPair()
    rig.service(ListenerService).accept(there, { device: 'dev-a' })
    const response = await ask({ connection: here }, '/who', authorization)
    const said = await json(response)
    here.destroy()
    return [response.statusCode, said['id'] ?? null, said['mode'] ?? null]
  }
  t.same(await over('TEST1 dev-a'), [200, 'dev-a', 'relay'])
  t.same(await over('Bearer svc_test_dev-a'), [200, 'dev-a', 'relay'])
  t.same(await over('TEST1 dev-b'), [401, null, null], 'another device')
  t.same(await over(), [401, null, null], 'nobody is local there, whatever a route needs')
  t.same(await over('Bearer svc_app_x'), [401, null, null], 'nor has a token')
})

async function running (t: TestContext): Promise<{ rig: Rig, url: string, ended: Set<string> }> {
  const ended = new Set<string>()
  const rig = await startPlugin(t, probe(ended, []))
  return { rig, url: await rig.listen(), ended }
}

t.test('streams, requests and sockets end with their credential, those of others go on', async (t) => {
  const { rig, url, ended } = await running(t)
  const streams = await Promise.all(['dev-a', 'dev-b'].map(async (who) => {
    const response = await ask({ url }, '/follow', `TEST1 ${who}`)
    const state = { open: true }
    response.on('error', () => {}).on('close', () => { state.open = false }).resume()
    return state
  }))
  const waiting = ask({ url }, '/wait', 'TEST1 dev-a')
  const session = new WebSocket(`${url.replace('http', 'ws')}/state/sync`,
    { headers: { authorization: 'TEST1 dev-a' } })
  await once(session, 'open')
  const closed = once(session, 'close')
  await rig.clock.advance(5000)
  t.same(streams.map((s) => s.open), [true, true])
  ended.add('dev-a')
  await rig.clock.advance(1000)
  t.equal((await closed)[0], 4401)
  t.equal((await waiting).statusCode, 401)
  await rig.clock.advance(1000)
  await untilTrue(() => !streams[0]!.open)
  t.equal(streams[1]!.open, true)
})

async function untilTrue (holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}
