import t from 'tap'
import { once } from 'node:events'
import WebSocket from 'ws'
import { definePlugin, defineService, systemClock, type Manifest, type Plugin } from '../index.js'
import { startPlugin, type Rig } from '../testing/index.js'
import { restartReason } from '../plugins/cold.js'

const base = { version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const read = { summary: 's', authority: 'read' } as const
const stays = { manifest: { ...base, name: 'stays' }, start: () => ({}) } satisfies Plugin
const anything = { type: 'object' } as const
const ClockService = defineService<{ now (): number }>('guest.clock')

/** A plugin that contributes one item of every kind that clients or other nodes can see. */
const guest = definePlugin({
  ...base, name: 'guest',
  authorities: { 'guest:look': 'Look.' },
  provides: { clock: ClockService },
  commands: { note: { summary: 's', args: anything } },
  sections: { guestBook: { writer: 'node', summary: 's', value: anything } },
  state: { guests: 'Who is there.' },
  errors: {
    gone_out: { status: 404, retryable: false, message: 'Out.', remedy: 'Wait.' }
  },
  conflicts: { guest_tired: { severity: 'warn', meaning: 'Tired.', remediation: 'Sleep.' } },
  events: { GuestCame: { plane: 'durable', summary: 's', payload: anything } },
  capabilities: {
    ticks: {
      id: 'guest.ticks', version: '1.0.0', title: 'Ticks', description: 'Ticks.', annotations: {},
      io_mode: 'server_streaming', input_schema: anything, output_schema: null, output_chunk_schema: anything
    }
  },
  routes: {
    look: { method: 'GET', url: '/guest', ...read, authority: 'guest:look', errors: ['gone_out'] },
    wait: { method: 'GET', url: '/guest/wait', ...read },
    follow: { method: 'GET', url: '/guest/follow', ...read, stream: true }
  }
}, (ctx) => {
  ctx.emit('GuestCame', {})
  ctx.raise('guest_tired', '')
  ctx.advertise('guest-tag', true)
  ctx.readiness('guest', () => ({ ok: true, detail: 'here' }))
  return {
    services: { clock: { now: () => 1 } },
    commands: { note: () => ({ noted: true }) },
    state: { guests: () => ['one'] },
    invoke: {
      async * ticks (_input, call) {
        for (let n = 0; ; n++) {
          yield { payload: { n } }
          await new Promise((resolve) => { call.signal.addEventListener('abort', resolve, { once: true }) })
          call.signal.throwIfAborted()
        }
      }
    },
    routes: {
      look: () => ({ seen: true }),
      wait: async () => await new Promise(() => {}),
      async follow (request) {
        const stream = request.open({ contentType: 'text/event-stream' })
        await stream.write('data: 1\n\n')
        await once(request.signal, 'abort')
      }
    }
  }
})

/** A plugin that streams the strings given to `send` until the test ends. */
function host (): { plugin: Plugin, send: (text: string) => Promise<void> } {
  let send = async (_text: string): Promise<void> => {}
  const plugin = definePlugin({
    ...base, name: 'host',
    routes: { hear: { method: 'GET', url: '/hear', ...read, stream: true } }
  }, () => ({
    routes: {
      async hear (request) {
        const stream = request.open({ contentType: 'text/plain' })
        send = async (text) => { await stream.write(text) }
        await once(request.signal, 'abort')
      }
    }
  }))
  return { plugin, send: async (text) => { await send(text) } }
}

const turn = async (rig: Rig, name: string, enabled: boolean): Promise<Record<string, unknown>> =>
  (await rig.inject({ method: 'POST', url: `/v1/plugins/${name}`, payload: { enabled } })).json()

const everything = ['read', 'invoke', 'guest:look', 'operator', 'plugin:read', 'plugin:manage']

t.test('a plugin comes and goes with everything that it declares', async (t) => {
  const rig = await startPlugin(t, stays, { off: [guest], allow: everything })
  const get = async (url: string): Promise<Record<string, unknown>> => (await rig.inject({ url })).json()
  const seen = async (): Promise<object> => ({
    route: (await rig.inject({ url: '/guest' })).statusCode,
    listed: ((await get('/v1/plugins'))['plugins'] as { name: string }[])
      .filter(({ name }) => name !== 'capabilities'),
    capability: Object.keys((await get('/v1/capabilities'))['revisions'] as object),
    state: (await get('/state'))['guests'] as unknown,
    ready: ((await get('/readyz'))['checks'] as { name: string }[]).some(({ name }) => name === 'guest'),
    conflicts: rig.conflicts().map(({ code }) => code),
    service: rig.kernel.service(ClockService.id) !== undefined,
    methods: (await rig.inject({ method: 'PUT', url: '/guest', payload: {} })).statusCode
  })
  const off = {
    route: 404, capability: [], state: undefined, ready: false, conflicts: [],
    listed: [{ name: 'stays', enabled: true }, { name: 'guest', enabled: false, why: /disabled/ }],
    service: false, methods: 405
  }
  const on = {
    route: 200, capability: ['guest.ticks@1.0.0'], state: ['one'], ready: true,
    conflicts: ['guest_tired'], service: true,
    listed: [{ name: 'stays' }, { name: 'guest', enabled: true, why: null }], methods: 405
  }
  t.match(await seen(), off)
  for (let round = 0; round < 3; round++) {
    t.match(await turn(rig, 'guest', true), { in_effect: true, restart_needed: false, why: null })
    t.match(await seen(), on)
    t.match(await turn(rig, 'guest', true), { in_effect: true, why: null }, 'asked for what is there')
    t.match(await turn(rig, 'guest', false), { in_effect: true, why: null })
    t.match(await seen(), off)
    t.match(await get('/guest'), { error: { reason: 'plugin_disabled', details: { plugin: 'guest' } } })
  }
  t.match(rig.events.map(({ kind }) => kind),
    Array(3).fill(['GuestCame', 'PluginEnabled', 'PluginDisabled']).flat())
})

t.test('what is open of others goes on, and what is open of the plugin ends once', async (t) => {
  const other = host()
  const rig = await startPlugin(t, other.plugin, { plugins: [guest], allow: everything, clock: systemClock })
  const url = await rig.listen()
  const heard: string[] = []
  const stream = await fetch(`${url}/hear`)
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
  const next = async (): Promise<string> => (await reader.read()).value ?? ''
  const ws = new WebSocket(`${url.replace('http', 'ws')}/state/sync`)
  t.teardown(() => { ws.terminate() })
  await once(ws, 'open')
  const echoed = async (text: string): Promise<string> => {
    ws.ping(text)
    return String((await once(ws, 'pong') as [Buffer])[0])
  }
  t.equal(await echoed('before'), 'before')

  const follow = await fetch(`${url}/guest/follow`)
  const call = await fetch(`${url}/v1/capabilities/stream`, {
    method: 'POST', headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({
      capability_id: 'guest.ticks', version: '1.0.0', payload: {},
      descriptor_revision: Object.values(((await (await fetch(`${url}/v1/capabilities`)).json()) as
        { revisions: Record<string, string> }).revisions)[0]
    })
  })
  const waiting = fetch(`${url}/guest/wait`)
  await other.send('before ')
  heard.push(await next())
  const off = await fetch(`${url}/v1/plugins/guest`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"enabled":false}'
  })
  t.match(await off.json(), { in_effect: true })
  await other.send('after')
  heard.push(await next())
  t.same(heard, ['before ', 'after'], 'byte for byte')
  t.equal(await echoed('after'), 'after')
  t.match(await (await fetch(`${url}/v1/plugins/guest`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"enabled":true}'
  })).json(), { in_effect: true })
  const followed = await follow.text()
  t.match(followed, /^data: 1\n\nevent: error\ndata: \{.*"reason":"plugin_disabled".*\}\n\n$/)
  const frames = await call.text()
  t.equal(frames.match(/"reason":"plugin_disabled"/g)?.length, 1, 'one terminal')
  t.match(await (await waiting).json(), { error: { reason: 'plugin_disabled' } },
    'a handler that ends of nothing is answered for')
  t.equal((await fetch(`${url}/guest`)).status, 200)
  await reader.cancel()
})

const bad: [string, () => unknown, RegExp][] = [
  ['throws', () => { throw new Error('no key') }, /no key/],
  ['is too slow', () => new Promise(() => {}), /took over 0\.3 seconds/],
  ['gives too little', () => ({}), /nothing for the declared route/],
  ['gives a capability that is there', () => ({ routes: { a: () => 1 }, invoke: { x: () => ({}) } }), /x@1/]
]
for (const [title, start, message] of bad) {
  t.test(`a plugin whose start ${title} leaves everything as it was`, async (t) => {
    let undone = 0
    const capability = {
      id: 'x', version: '1.0.0', title: 'X', description: 'X.', annotations: {}, io_mode: 'unary',
      input_schema: anything, output_schema: anything
    } as const
    const owner = definePlugin({ ...base, name: 'stays', capabilities: { x: capability } },
      () => ({ invoke: { x: async () => ({}) } }))
    const withX = title.includes('capability') ? { capabilities: { x: capability } } : {}
    const broken: Plugin = {
      manifest: { ...base, name: 'broken', routes: { a: { method: 'GET', url: '/a', ...read } }, ...withX },
      start (ctx) {
        ctx.effect('something', () => { undone++ })
        ctx.on('PluginEnabled', () => {})
        return start() as never
      }
    }
    const rig = await startPlugin(t, owner, { off: [broken], allow: everything, startLimitMs: 300 })
    const before = (await rig.inject({ url: '/v1/plugins' })).body
    t.match(await turn(rig, 'broken', true), { error: { reason: 'plugin_failed', message, code: 409 } })
    t.equal((await rig.inject({ url: '/v1/plugins' })).body, before)
    t.match((await rig.inject({ url: '/a' })).json(), { error: { reason: 'plugin_disabled' } })
    t.equal(undone, 1)
    t.same(rig.events, [])
    t.match(await turn(rig, 'stays', false), { in_effect: true }, 'and the next switch is made')
  })
}

t.test('switches that come at once are made one after the other', async (t) => {
  const rig = await startPlugin(t, stays, { off: [guest], allow: everything })
  const answers = await Promise.all(
    Array.from({ length: 8 }, async (_, n) => await turn(rig, 'guest', n % 2 === 0)))
  t.ok(answers.every((answer) => answer['in_effect'] === true))
  t.equal((await rig.inject({ url: '/guest' })).statusCode, 404)
})

const user = (name: string, uses: 'each time' | 'in its start'): Plugin => definePlugin({
  ...base, name, consumesOptional: { clock: ClockService },
  routes: { [name]: { method: 'GET', url: `/${name}`, ...read } }
} as const, (ctx) => {
  const atStart = uses === 'in its start' ? ctx.deps.clock : undefined
  return {
    routes: { [name]: () => ({ now: (uses === 'each time' ? ctx.deps.clock : atStart)?.now() ?? null }) }
  } as never
})

t.test('a service that is used where it is there comes and goes at once', async (t) => {
  const rig = await startPlugin(t, user('late', 'each time'), { off: [guest], allow: everything })
  const now = async (): Promise<unknown> => (await rig.inject({ url: '/late' })).json().now
  t.equal(await now(), null)
  for (let round = 0; round < 2; round++) {
    t.match(await turn(rig, 'guest', true), { in_effect: true, restart_needed: false })
    t.equal(await now(), 1)
    t.match(await turn(rig, 'guest', false), { in_effect: true, restart_needed: false })
    t.equal(await now(), null)
  }
})

t.test('one that reads it in its start keeps it until the restart', async (t) => {
  const rig = await startPlugin(t, user('early', 'in its start'), { plugins: [guest], allow: everything })
  t.match(await turn(rig, 'guest', false),
    { in_effect: false, why: /"early" uses its service "guest.clock"/ })
  t.equal((await rig.inject({ url: '/early' })).json().now, 1)
})

const service = (id: string): Manifest['consumes'] => ({ it: defineService(id) })
const named = (name: string, more: Partial<Manifest> = {}): Manifest => ({ ...base, name, ...more })
const p = named('p', { provides: service('p.it')! })
const cold: [string, Partial<Parameters<typeof restartReason>[0]>, RegExp | null][] = [
  ['nothing is in the way', { to: p }, null],
  ['nobody minds', { from: p, others: [named('a')] }, null],
  ['one goes down with it', { from: p, before: ['p', 'a'], after: [] }, /it also switches "a"/],
  ['one comes back with it', { to: p, before: [], after: ['p', 'a', 'b'] }, /"a", "b"/],
  ['its service is used', { from: p, others: [named('a', { consumes: service('p.it')! })] },
    /"a" uses its service "p\.it"/],
  ['its service is used where it is there', {
    from: p, others: [named('a', { consumesOptional: service('p.it')! })]
  }, /"a" uses/],
  ['its service would be used', { to: p, others: [named('a', { consumesOptional: service('p.it')! })] },
    /"a" would use/],
  ['one that runs requires it', { from: p, others: [named('a', { requires: ['p@^1.0.0'] })] },
    /"a" requires it/],
  ['what it requires waits for a restart', { to: named('p', { requires: ['a'] }) }, /requires "a"/],
  ['what it requires runs', { to: named('p', { requires: ['a'] }), others: [named('a')] }, null],
  ['it keeps the audit', { from: named('p', { provides: service('kernel.audit')! }) }, /changes in progress/],
  ['it is to keep the audit', { to: named('p', { provides: service('kernel.audit')! }) }, null],
  ['an engine comes', { to: named('p', { engines: { e: {} as never } }) }, /engines such as its "e"/],
  ['an engine goes', { from: named('p', { engines: { e: {} as never } }) }, /engines such as its "e"/],
  ['a new name of /state', { to: named('p', { stateReadings: ['z'] }) }, /"z" of \/state/],
  ['a known name of /state', { to: named('p', { stateReadings: ['z'] }), named: new Set(['z']) }, null]
]
for (const [title, move, reason] of cold) {
  t.test(`hot or not: ${title}`, (t) => {
    const said = restartReason({
      name: 'p', from: undefined, to: undefined, others: [], before: [], after: [], named: new Set(), ...move
    })
    if (reason === null) t.equal(said, null)
    else t.match(said, reason)
    t.end()
  })
}
