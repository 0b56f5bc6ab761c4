import t, { type Test } from 'tap'
import {
  definePlugin, kernelError, type CapabilityCall, type CapabilityChunk, type Plugin
} from '../../../kernel/index.js'
import { startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { systemClock } from '../../../kernel/api/clock.js'
import { MediaCache } from '../media.js'
import { targets } from '../tools.js'
import mcp from '../index.js'
import type { Listed } from '../../capabilities/cli/invoke.js'

const anything = { type: 'object', properties: {} } as const
const decl = {
  version: '1.0.0', title: 'T', description: 'Does it.', annotations: {}, input_schema: anything
} as const

interface Sound { bytes?: number, pieces?: number, wait?: boolean }

/** A third-party plugin with capabilities for counting, sound and chat, and a read-only tool. */
function others (seen: { ended: number, running: number }): Plugin {
  const fact = { level: 'ok', code: 'x', text: 'All is well.' }
  const looks = { run: async () => ({ facts: [fact], unknown: [] }) }
  return definePlugin({
    name: 'others', version: '1.0.0', kernel: '^1.0.0', summary: 'Of somebody else.',
    capabilities: {
      count: {
        ...decl, id: 'acme.count', io_mode: 'unary', output_schema: anything,
        input_schema: {
          type: 'object', additionalProperties: false, required: ['text'],
          properties: { text: { type: 'string' } }
        }
      },
      sound: {
        ...decl, id: 'sound', io_mode: 'server_streaming', output_chunk_schema: anything,
        media_type: 'audio/mpeg'
      },
      talk: { ...decl, id: 'talk', io_mode: 'server_streaming', output_chunk_schema: anything },
      broken: { ...decl, id: 'broken', io_mode: 'unary', output_schema: anything },
      name: {
        ...decl, id: 'name', io_mode: 'unary', output_schema: { type: 'string' },
        annotations: { ...decl.annotations, read_only: 'true', destructive: 'false' }
      },
      duplex: {
        ...decl, id: 'duplex', io_mode: 'bidirectional', input_chunk_schema: anything,
        output_chunk_schema: anything
      }
    },
    tools: {
      look_it_up: {
        summary: 'Looks it up.', load: async () => ({ default: looks }),
        args: { type: 'object', additionalProperties: false, properties: { deep: { type: 'boolean' } } }
      }
    }
  }, () => ({
    invoke: {
      count: async ({ text }) => ({ words: text.split(' ').length }),
      name: async () => 'attic',
      broken: async () => { throw kernelError('no_instance', 'Nothing is placed.') },
      async * talk () {
        for (const content of ['Hel', 'lo']) {
          yield { payload: { object: 'chat.completion.chunk', choices: [{ delta: { content } }] } }
        }
      },
      async * duplex () { yield { payload: {} } },
      async * sound (input, { signal }: CapabilityCall): AsyncGenerator<CapabilityChunk> {
        const { bytes = 10, pieces = 2, wait = false } = input as Sound
        seen.running++
        try {
          for (let i = 0; i < pieces; i++) {
            const media = {
              bytes: new Uint8Array(bytes).fill(i), mediaType: 'audio/mpeg', codec: 'mp3', sampleRate: 24000,
              channels: 1, timestampSeconds: i, durationSeconds: 1
            }
            yield { payload: { i }, media }
          }
          if (!wait) return
          await new Promise((_resolve, reject) => { signal.onabort = () => { reject(signal.reason) } })
        } finally {
          seen.ended++
        }
      }
    }
  }))
}

const VERSIONS = { old: '2025-06-18', now: '2026-07-28' }
const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

interface Answer { id?: unknown, result?: Record<string, unknown>, error?: { code: number, message: string } }

/** The messages in a JSON or event-stream response. */
const messagesOf = (text: string): Answer[] => text.startsWith('{') || text.startsWith('[')
  ? [JSON.parse(text) as Answer].flat()
  : [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data!) as Answer)

async function rigOf (t: Test, allow?: string[]): Promise<{
  rig: Rig, seen: { ended: number, running: number }
  ask: (method: string, params?: object, more?: Record<string, string>) => Promise<Answer>
}> {
  const seen = { ended: 0, running: 0 }
  const rig = await startPlugin(t, mcp, {
    plugins: [others(seen)], clock: systemClock, ...allow === undefined ? {} : { allow }
  })
  let id = 0
  return {
    rig, seen,
    async ask (method, params = {}, more = {}) {
      const answer = await rig.inject({
        method: 'POST', url: '/mcp', payload: { jsonrpc: '2.0', id: ++id, method, params },
        headers: { ...headers, 'mcp-protocol-version': VERSIONS.old, ...more }
      })
      const found = messagesOf(answer.payload).find((message) => message.id === id)
      if (found === undefined) t.fail(`no answer: ${answer.statusCode} ${answer.payload}`)
      return found!
    }
  }
}

const call = (name: string, args: object = {}, meta?: object): object =>
  ({ name, arguments: args, ...meta === undefined ? {} : { _meta: meta } })

t.test('capabilities and read-only tools of every plugin are tools', async (t) => {
  const { ask } = await rigOf(t)
  const { result } = await ask('tools/list')
  const tools = result!['tools'] as { name: string, inputSchema: object, description: string }[]
  t.strictSame(tools.map(({ name }) => name), ['acme_count', 'broken', 'look_it_up', 'name', 'sound', 'talk'],
    'without the one that needs chunks of its client')
  t.match(tools[0], {
    title: 'T', description: 'Does it. (the capability acme.count@1.0.0)',
    inputSchema: { type: 'object', required: ['text'] }, outputSchema: { type: 'object' },
    annotations: { readOnlyHint: false }
  })
  t.match(tools[2], { annotations: { readOnlyHint: true } }, 'a tool that inspects the cluster')
  t.match(tools[3], { annotations: { readOnlyHint: true, destructiveHint: false }, outputSchema: undefined })
  t.match(await ask('tools/call', call('acme_count', { text: 'a b c' })), { result: {
    content: [{ type: 'text', text: '{"words":3}' }], structuredContent: { words: 3 }
  } })
  t.strictSame((await ask('tools/call', call('name'))).result!['content'], [{ type: 'text', text: 'attic' }])
  t.match(await ask('tools/call', call('talk')), { result: { content: [{ type: 'text', text: 'Hello' }] } })
  t.match(await ask('tools/call', call('look_it_up', { deep: true })),
    { result: { content: [{ text: /All is well/ }] } })
})

t.test('what fails is told to the model that asked; what is no tool to its program', async (t) => {
  const { ask } = await rigOf(t)
  const failed = async (params: object, text: RegExp): Promise<void> => {
    t.match(await ask('tools/call', params), { result: { isError: true, content: [{ text }] } })
  }
  await failed(call('acme_count'), /text .*\(400 invalid_payload\)/)
  await failed(call('broken'), /Nothing is placed.*\(404 no_instance\)/)
  await failed(call('look_it_up', { deep: 1 }), /arguments of look_it_up are invalid: deep/)
  await failed(call('sound', { bytes: 20 * 1024 * 1024 }), /too large for MCP: over 33554432 bytes/)
  t.match(await ask('tools/call', call('constructor')), { error: { code: -32602, message: /constructor/ } })
  t.match(await ask('tools/call', { name: 7 }), { error: { code: -32602 } })
  t.match(await ask('no/such'), { error: { code: -32601 } })
})

t.test('sound is part of the answer, and a link where it is large', async (t) => {
  const { ask } = await rigOf(t)
  const sound = Buffer.concat([Buffer.alloc(10), Buffer.alloc(10, 1)])
  const small = await ask('tools/call', call('sound'))
  t.match(small.result!['content'], [
    { type: 'audio', mimeType: 'audio/mpeg', data: sound.toString('base64') },
    { type: 'text', text: '{"media_type":"audio/mpeg","codec":"mp3","sample_rate":24000,"channels":1,' +
      '"bytes":20,"seconds":2}' }
  ])
  const large = await ask('tools/call', call('sound', { bytes: 600_000 }))
  const [link] = large.result!['content'] as { type: string, uri: string, size: number }[]
  t.match(link, { type: 'resource_link', mimeType: 'audio/mpeg', size: 1_200_000 })
  t.match(await ask('resources/list'), { result: { resources: [{ uri: link!.uri, size: 1_200_000 }] } })
  const read = await ask('resources/read', { uri: link!.uri })
  const [{ blob }] = read.result!['contents'] as [{ blob: string }]
  t.equal(Buffer.from(blob, 'base64').byteLength, 1_200_000)
  t.match(await ask('resources/read', { uri: 'svc://media/x' }), { error: { message: /svc:\/\/media\/x/ } })
})

t.test('what is kept is its maker\'s, ends, and has a bound', (t) => {
  let now = 0
  const cache = new MediaCache({ mono: () => now })
  const mib = new Uint8Array(30 * 1024 * 1024)
  const first = cache.keep('a', 'audio/mpeg', mib)
  t.equal(cache.find('b', first.uri), undefined)
  t.equal(cache.find('a', first.uri)?.bytes, mib)
  cache.keep('b', 'audio/mpeg', mib)
  t.ok(cache.find('a', first.uri))
  cache.keep('b', 'audio/mpeg', mib)
  t.equal(cache.find('a', first.uri), undefined, 'the oldest goes where there are too many bytes')
  t.equal(cache.of('b').length, 2)
  now = 11 * 60 * 1000
  t.equal(cache.of('b').length, 0)
  t.end()
})

t.test('without invoke there are read-only tools only, and without read nothing', async (t) => {
  const { ask } = await rigOf(t, ['read'])
  const { result } = await ask('tools/list')
  t.strictSame((result!['tools'] as { name: string }[]).map(({ name }) => name), ['look_it_up'])
  t.match(await ask('tools/call', call('acme_count', { text: 'a' })), { error: { message: /authority/ } })
  const { rig } = await rigOf(t, ['invoke'])
  const refused = await rig.inject({ method: 'POST', url: '/mcp', payload: {}, headers })
  t.equal(refused.statusCode, 401)
  t.match(refused.json(), { jsonrpc: '2.0', id: null, error: { message: /read/, data: { code: 401 } } })
})

t.test('names that clash have a version behind them', (t) => {
  const one = (id: string, version: string): Listed =>
    ({ id, version, revision: 'f'.repeat(16), input_chunk_schema: null } as unknown as Listed)
  const tools = [{ tools: { look: { summary: '', args: {}, load: async () => ({ default: null }) } } }]
  const found = targets([one('a', '1.0.0'), one('a', '10.0.0'), one('a', '9.0.0'), one('a.b', '1.0.0'),
    one('a:b', '1.0.0'), one('look', '1.0.0'), one(`x${'y'.repeat(80)}`, '1.0.0')],
  tools as unknown as Parameters<typeof targets>[1])
  t.strictSame([...found].map(([name, target]) =>
    `${name} ${target.kind === 'tool' ? 'tool' : target.capability.version}`), [
    'a 10.0.0', 'a_1_0_0 1.0.0', 'a_9_0_0 9.0.0', 'a_b 1.0.0', 'a_b_1_0_0 1.0.0', 'look tool',
    'look_1_0_0 1.0.0', `x${'y'.repeat(63)} 1.0.0`
  ])
  t.end()
})

t.test('versions are negotiated, with and without a session', async (t) => {
  const { ask, rig } = await rigOf(t)
  const hello = (protocolVersion: string): Promise<Answer> => ask('initialize',
    { protocolVersion, capabilities: {}, clientInfo: { name: 'x', version: '1' } })
  for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']) {
    t.match(await hello(version), { result: { protocolVersion: version, serverInfo: { name: 'svc' } } })
  }
  t.match(await hello('1999-01-01'), { result: { protocolVersion: '2025-11-25' } })
  const meta = {
    'io.modelcontextprotocol/protocolVersion': VERSIONS.now,
    'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {}
  }
  const modern = {
    'mcp-protocol-version': VERSIONS.now, 'mcp-method': 'tools/call', 'mcp-name': 'acme_count'
  }
  t.match(await ask('tools/call', call('acme_count', { text: 'a b' }, meta), modern),
    { result: { content: [{ text: '{"words":2}' }] } })
  const batch = await rig.inject({
    method: 'POST', url: '/mcp', headers: { ...headers, 'mcp-protocol-version': '2025-03-26' },
    payload: [1, 2].map((id) => ({ jsonrpc: '2.0', id, method: 'ping' }))
  })
  t.strictSame(messagesOf(batch.payload).map(({ id }) => id).sort(), [1, 2])
})

t.test('hostile bodies get an answer of JSON-RPC or of HTTP', async (t) => {
  const { rig } = await rigOf(t)
  const send = async (payload: string, more: Record<string, string> = {}): Promise<number> => {
    const all = { ...headers, ...more }
    const answer = await rig.inject({ method: 'POST', url: '/mcp', payload, headers: all })
    if (answer.payload !== '') {
      const detail = answer.statusCode === 200 ? {} : { detail: /./ }
      t.match(answer.json(), { jsonrpc: '2.0', error: { message: /./ }, ...detail }, payload.slice(0, 80))
    }
    return answer.statusCode
  }
  t.equal(await send('{'), 400)
  t.equal(await send(''), 400)
  t.equal(await send('7'), 400)
  t.equal(await send('null'), 400)
  t.equal(await send('{}'), 400)
  t.equal(await send('[]'), 400)
  t.equal(await send('{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}'), 400)
  t.equal(await send('{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}'), 400)
  t.equal(await send('{"jsonrpc":"2.0","id":1,"method":"ping"}', { accept: 'text/html' }), 406)
  t.equal(await send('{"jsonrpc":"2.0","id":1,"method":"ping"}', { 'content-type': 'text/plain' }), 415)
  t.equal(await send(`{"jsonrpc":"2.0","id":1,"method":"${'x'.repeat(1_200_000)}"}`), 413)
  t.equal(await send(`[${'{"jsonrpc":"2.0","id":1,"method":"ping"},'.repeat(2000)}1]`), 400)
  const deep = '{"a":'.repeat(2000) + '1' + '}'.repeat(2000)
  t.ok([200, 400].includes(await send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":${deep}}`)))
  const odd = await rig.inject({ method: 'GET', url: '/mcp', headers })
  t.equal(odd.statusCode, 405, 'there is nothing that the server would say by itself')
})

t.test('a session is a label: it cancels what it began, and ends', async (t) => {
  const { ask, rig, seen } = await rigOf(t)
  const begun = await rig.inject({
    method: 'POST', url: '/mcp', headers,
    payload: {
      jsonrpc: '2.0', id: 1, method: 'initialize',
      params: { protocolVersion: VERSIONS.old, capabilities: {}, clientInfo: { name: 'x', version: '1' } }
    }
  })
  const session = begun.headers['mcp-session-id'] as string
  t.match(session, /^[0-9a-f-]{36}$/)
  const other = '00000000-0000-0000-0000-000000000000'
  const url = `${await rig.listen()}/mcp`
  const post = (label: string, body: object): Promise<Response> => fetch(url, {
    method: 'POST', body: JSON.stringify({ jsonrpc: '2.0', ...body }),
    headers: { ...headers, 'mcp-protocol-version': VERSIONS.old, 'mcp-session-id': label }
  })
  const play = async (): Promise<Response> => {
    const { running } = seen
    const answer = await post(session, { id: 7, method: 'tools/call', params: call('sound', { wait: true }) })
    while (seen.running === running) await new Promise((resolve) => { setImmediate(resolve) })
    return answer
  }
  const one = await play()
  await post(other, { method: 'notifications/cancelled', params: { requestId: 7 } })
  await post(session, { method: 'notifications/cancelled', params: { requestId: 8 } })
  t.equal(seen.ended, 0, 'not by another session, nor by another id')
  await post(session, { method: 'notifications/cancelled', params: { requestId: 7 } })
  t.notMatch(await one.text(), /"id":7/, 'no answer to what was cancelled')
  t.equal(seen.ended, 1)
  const two = await play()
  t.equal((await fetch(url, { method: 'DELETE', headers: { 'mcp-session-id': session } })).status, 200)
  await two.text()
  t.equal(seen.ended, 2)
  t.equal((await post(session, { id: 9, method: 'ping' })).status, 404, 'so that its client begins another')
  t.match(await ask('ping'), { result: {} })
  const left = new AbortController()
  const waiting = call('sound', { wait: true })
  const three = fetch(url, {
    method: 'POST', headers, signal: left.signal,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: waiting })
  }).then((answer) => answer.text())
  while (seen.running < 3) await new Promise((resolve) => { setImmediate(resolve) })
  left.abort()
  await t.rejects(three)
  while (seen.ended < 3) await new Promise((resolve) => { setImmediate(resolve) })
  t.pass('whoever leaves ends the work')
})

t.test('progress is told to those who ask for it', async (t) => {
  const { rig } = await rigOf(t)
  const answer = await rig.inject({
    method: 'POST', url: '/mcp', headers,
    payload: {
      jsonrpc: '2.0', id: 1, method: 'tools/call',
      params: call('sound', { pieces: 3 }, { progressToken: 'p' })
    }
  })
  t.match(messagesOf(answer.payload), [
    { method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } }, { id: 1, result: {} }
  ])
})
