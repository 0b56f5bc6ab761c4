import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import {
  ClusterService, definePlugin, InspectionService, LogRingService, StateService, type Inspection, type LogLine
} from '../../../kernel/index.js'
import { fake, startPlugin, type Rig } from '../../../kernel/testing/index.js'
import { cli, sendError, standIn } from '../../../kernel/test/cli-helpers.js'
import { InvocationService } from '../../capabilities/service.js'
import { RunnersService } from '../../runners/service.js'
import { makeBundle, PART_BYTES, type Part } from '../capture/bundle.js'
import { limitsOf } from '../capture/index.js'
import { MASK, masked, maskText } from '../capture/bundle.js'
import { packTar } from '../capture/tar.js'
import diagnostics from '../index.js'
import { answer, fakeCluster, runnerReport, unpackTar } from './kit.js'

const TOKEN = `svc_op_${'a1B2'.repeat(10)}xyz_Zz9Yx8`

t.test('what looks like a secret is taken out of texts', (t) => {
  const table: [string, string][] = [
    [`with ${TOKEN} inside`, `with svc_op_${MASK} inside`],
    ['svc_app_0123456789 cut off', `svc_app_${MASK} cut off`],
    ['svcjoin1_eyJhIjoxfQ_0a1b2c3d', `svcjoin1_${MASK}`],
    ['Authorization: Bearer abc.def-ghi_jkl', `Authorization: Bearer ${MASK}`],
    ['basic dXNlcjpwYXNz', `basic ${MASK}`],
    ['hf_abcdefghijklmnop and sk-proj-0123456789abcdef', `hf_${MASK} and sk-${MASK}`],
    ['https://ann:pa55@example.com/x', `https://${MASK}@example.com/x`],
    ['https://h/x?a=1&api_key=s3cret&b=2', `https://h/x?${MASK}`],
    ['?token=abc', `?token=${MASK}`],
    ['-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----', MASK],
    ['-----BEGIN EC PRIVATE KEY-----\ncut', MASK],
    ['a key of a map, 12 tokens', 'a key of a map, 12 tokens'], ['http://h:52415/x', 'http://h:52415/x']
  ]
  for (const [text, shown] of table) t.equal(maskText(text), shown)
  t.equal(maskText('the xyzzy word', ['', 'xyzzy']), `the ${MASK} word`)
  t.end()
})

t.test('values under the name of a secret are masked, at any depth', (t) => {
  const config = [
    { path: 'plugins.x.token', value: 'plain', origin: 'file' }, { path: 'api.port', value: 52415 },
    { path: 'logging.level', value: 'info' }
  ]
  t.same(masked({
    a: [{ hub_token: 'x', password: 'y', apiKey: 'z', 'x-api-key': 'k', empty: { secret: '' } }], tokens: 12,
    keys: ['a'], note: `see ${TOKEN}`, [TOKEN]: 1, config, none: null, yes: true
  }), {
    a: [{ hub_token: MASK, password: MASK, apiKey: MASK, 'x-api-key': MASK, empty: { secret: '' } }],
    tokens: 12, keys: ['a'], note: `see svc_op_${MASK}`, [`svc_op_${MASK}`]: 1, none: null, yes: true,
    config: [{ path: 'plugins.x.token', value: MASK, origin: 'file' }, config[1], config[2]]
  })
  t.end()
})

t.test('a tar archive comes back as it went in', (t) => {
  const files = ['', 'x', 'x'.repeat(511), 'x'.repeat(512), 'ü'.repeat(513)].map((text, i) =>
    ({ name: `folder/file${i}.txt`, bytes: Buffer.from(text) }))
  const tar = packTar(files, 1_767_225_600)
  t.equal(tar.length % 512, 0)
  t.same(unpackTar(tar), files)
  t.throws(() => packTar([{ name: 'n'.repeat(101), bytes: Buffer.alloc(0) }], 0), RangeError)
  t.end()
})

t.test('a part that cannot be collected leaves the others as they are', async (t) => {
  const part = (name: string, make: Part['make']): Part => ({ name, what: `What ${name} is.`, make })
  const { name, bytes } = await makeBundle({
    node: 'my node/../x', version: '1.2.3', nowMs: Date.parse('2026-01-02T03:04:05.678Z'), secrets: ['hush'],
    parts: [
      part('good.json', () => ({ a: 'hush now' })), part('text.txt', () => 'as it is'),
      part('none.json', () => undefined),
      part('broken.json', async () => { throw new Error('no hush disk') }),
      part('large.txt', () => 'x'.repeat(PART_BYTES + 1))
    ]
  })
  t.equal(name, 'svc-capture-my-node-..-x-20260102T030405Z.tar.gz')
  const files = new Map(unpackTar(gunzipSync(bytes)).map((file) =>
    [file.name.split('/').at(-1), Buffer.from(file.bytes).toString()]))
  t.equal(files.get('good.json'), `{\n "a": "${MASK} now"\n}\n`)
  t.equal(files.get('text.txt'), 'as it is')
  t.equal(files.get('none.json'), 'null\n')
  t.equal(files.get('large.txt'), '')
  const readme = files.get('README.txt')!
  t.match(readme, /svc 1\.2\.3 node my node/)
  t.match(readme, /It contains no prompts/)
  t.match(readme, new RegExp(`broken\\.json +could not be collected: no \\*+ disk`))
  t.match(readme, /large\.txt +left out: it has 4194305 bytes, and only 4194304 are left/)
  t.match(readme, /What good\.json is\./)
})

t.test('the whole bundle has room for so much', async (t) => {
  const parts = Array.from({ length: 8 }, (_, i): Part =>
    ({ name: `p${i}.txt`, what: 'Much.', make: () => 'x'.repeat(PART_BYTES) }))
  const { bytes } = await makeBundle({ node: 'n', version: '1', nowMs: 0, secrets: [], parts })
  const sizes = unpackTar(gunzipSync(bytes)).map((file) => file.bytes.byteLength)
  t.same(sizes.slice(1), [...Array<number>(6).fill(PART_BYTES), 0, 0])
})

t.test('soft limits are read', (t) => {
  const text = 'Limit                     Soft Limit           Hard Limit           Units     \n' +
    'Max open files            1024                 4096                 files     \n' +
    'Max address space         unlimited            unlimited            bytes     \n'
  t.same(limitsOf(text), { 'Max open files': '1024', 'Max address space': 'unlimited' })
  t.same(limitsOf(''), {})
  t.end()
})

const CAPTURE = '/v1/diagnostics/node/capture'
const PROMPT = 'canary prompt 4711 about my neighbour'
const SECRETS = { hub: 'hunter2-hub-secret', operator: TOKEN, engine: 'what the engine printed of it' }

/** A node that has answered a prompt, with secrets in every possible place. */
async function spoken (t: Test): Promise<Rig> {
  const chat = definePlugin({
    name: 'parrot', version: '1.0.0', kernel: '^1.0.0', summary: 'Repeats.',
    consumes: { invocations: InvocationService },
    routes: { say: {
      method: 'POST', url: '/say', authority: 'invoke', summary: 'Repeats.', stream: true,
      body: { type: 'object' }
    } },
    capabilities: { parrot: {
      id: 'parrot', version: '1.0.0', title: 'Parrot', description: 'Repeats.', io_mode: 'server_streaming',
      input_schema: { type: 'object' }, output_chunk_schema: { type: 'object' }, annotations: {}
    } }
  }, (ctx) => ({
    invoke: { parrot: (input: object) => repeat(input) },
    routes: {
      say: async (request) => {
        await ctx.deps.invocations.serve(request, {
          as: 'parrot@1.0.0', contentType: 'text/plain', frame: ({ payload }) => JSON.stringify(payload),
          handler: () => repeat(request.body)
        })
      }
    }
  }))
  const line: LogLine = {
    seq: 1, at: '2026-01-01T00:00:00.000Z', level: 'info', source: 'node', plugin: 'x', modelId: null,
    runnerId: null, message: 'a line of the node', fields: { url: `http://ann:${SECRETS.hub}@hub/x` }
  }
  const lines = (): LogLine[] =>
    [line, { ...line, seq: 2, source: 'runner', message: `${SECRETS.engine}: ${PROMPT}` }]
  const inspection: Partial<Inspection> = {
    plugins: () => [], warnings: () => [], url: () => null, dials: () => [], links: () => [],
    openCommands: () => 0, openStreams: () => 0,
    config: () => ({
      file: '/x/svc.yaml', entries: [{ path: 'model_store.hub_token', value: SECRETS.hub, origin: 'file' }]
    })
  }
  const flightRecorder = [{ at: '2026-01-01T00:00:00.000Z', what: 'task t1 (tts) started' }]
  const rig = await startPlugin(t, diagnostics, {
    plugins: [chat],
    fakes: [
      fake(RunnersService, { reports: () => [runnerReport({ flightRecorder })] }),
      fake(InspectionService, inspection), fake(LogRingService, { lines, nextSeq: 3 }),
      fake(StateService, { read: async () => ({ sessionId: 'the session', tasks: {} }) }),
      fake(ClusterService, fakeCluster({ b: () => answer('no report') }) as never)
    ]
  })
  mkdirSync(rig.home, { recursive: true })
  writeFileSync(join(rig.home, 'operator.token'), `${SECRETS.operator}\n`)
  const said = await rig.inject({ method: 'POST', url: '/say', payload: { text: PROMPT } })
  t.match(said.body, PROMPT, 'the prompt was spoken')
  return rig
}

async function * repeat (payload: object): AsyncGenerator<{ payload: Record<string, unknown> }> {
  yield { payload: { ...payload } }
}

t.test('the bundle tells what an operator needs, and no prompt and no secret', async (t) => {
  const rig = await spoken(t)
  const sent = await rig.inject({ method: 'POST', url: CAPTURE, payload: {} })
  t.equal(sent.statusCode, 200, sent.body.slice(0, 200))
  t.equal(sent.headers['content-type'], 'application/gzip')
  t.match(sent.headers['content-disposition'],
    /^attachment; filename="svc-capture-test-20260101T\d{6}Z\.tar\.gz"$/)
  t.equal(Number(sent.headers['content-length']), sent.rawPayload.length)
  const tar = gunzipSync(sent.rawPayload)
  const files = new Map(unpackTar(tar).map(({ name, bytes }) =>
    [name.split('/').at(-1)!, Buffer.from(bytes).toString()]))
  t.same([...files.keys()], [
    'README.txt', 'facts.json', 'node.json', 'cluster.json', 'config.json', 'events.json',
    'event-log.json', 'telemetry.json', 'metrics.txt', 'state.json', 'log.jsonl'
  ])
  const json = (name: string): unknown => JSON.parse(files.get(name)!)
  t.match(json('node.json'), { supervisorRunners: [{ flightRecorder: [{ what: 'task t1 (tts) started' }] }] })
  t.match(json('cluster.json'), { nodes: [{ name: 'me' }, { name: 'b', error: { reason: 'garbage' } }] })
  t.match(json('config.json'), { entries: [{ path: 'model_store.hub_token', value: MASK }] })
  t.match(json('state.json'), { sessionId: 'the session' })
  t.match(json('facts.json'), { platform: process.platform, process: { pid: process.pid } })
  t.match(files.get('metrics.txt'), /^svc_build_info\{version="0\.0\.0"\} 1$/m)
  t.match(files.get('log.jsonl'), /a line of the node/)
  const all = [...files.values()].join('\n')
  for (const hidden of [PROMPT, 'canary', ...Object.values(SECRETS)]) {
    t.notOk(all.includes(hidden), `"${hidden}" is not in it`)
    t.notOk(tar.includes(hidden))
  }
  const bare = await rig.inject({ method: 'POST', url: CAPTURE })
  t.equal(bare.statusCode, 200, 'a body is not asked for')
  const unknown = await rig.inject({ method: 'POST', url: CAPTURE, payload: { all: true } })
  t.equal(unknown.statusCode, 400)
  const weak = await startPlugin(t, diagnostics, { allow: ['read', 'invoke', 'cluster:write'] })
  const refused = await weak.inject({ method: 'POST', url: CAPTURE, payload: {} })
  t.equal(refused.statusCode, 401)
})

t.test('svc capture saves the bundle and says what is in it', async (t) => {
  const rig = await spoken(t)
  const url = await rig.listen()
  const cwd = t.testdir()
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['capture', ...words, '--url', url], { plugins: [diagnostics], cwd })
  const named = join(cwd, 'bug.tar.gz')
  const ran = await run('-o', named)
  t.match(ran, {
    status: 0, out: /bug\.tar\.gz: .*, 11 files\n  README\.txt  [\s\S]*no prompts, texts, tokens or keys/
  })
  t.equal(unpackTar(gunzipSync(readFileSync(named))).length, 11)
  const listed = JSON.parse((await run('-o', named, '--json')).out) as { file: string, files: unknown[] }
  t.match(listed, { file: named, files: [{ name: /README\.txt$/, bytes: Number }] })
  const piped = await run('-o', '-')
  t.equal(unpackTar(gunzipSync(piped.bytes)).length, 11, 'on stdout is nothing but the bundle')
  t.match(piped.err, /the bundle: /)
})

/** A valid archive that unpacks to more than any bundle; random bytes keep its compression realistic. */
const huge = (): Buffer => {
  const bytes = Buffer.alloc(65 * 1024 ** 2)
  for (let at = 0; at < bytes.length; at += 65_536) randomBytes(512).copy(bytes, at)
  return gzipSync(packTar([{ name: 'a', bytes }], 0))
}

t.test('svc capture without a name takes the one the node gives, never a path', async (t) => {
  const { bytes } = await makeBundle({ node: 'n', version: '1', nowMs: 0, secrets: [], parts: [] })
  const here = process.cwd()
  process.chdir(t.testdir())
  t.teardown(() => { process.chdir(here) })
  const node = await standIn(t, { 'POST /v1/diagnostics/node/capture': (response, asked) => {
    const token = asked.headers['authorization']
    const send = (name: string): void => {
      response.writeHead(200, { 'content-disposition': `attachment; filename="${name}"` }).end(bytes)
    }
    if (token === 'Bearer evil') send('../evil.tar.gz')
    else if (token === 'Bearer none') response.end('<html>')
    else if (token === 'Bearer huge') response.end(huge())
    else if (token === 'Bearer weak') sendError(response, 403, 'missing_grant')
    else send('svc-capture-n-1.tar.gz')
  } })
  const run = async (token: string): ReturnType<typeof cli> =>
    await cli(['capture', '--url', node.url, '--token', token], { plugins: [diagnostics] })
  t.match(await run('good'), { status: 0, out: /^svc-capture-n-1\.tar\.gz: / })
  t.equal(unpackTar(gunzipSync(readFileSync('svc-capture-n-1.tar.gz'))).length, 1)
  t.match(await run('evil'), { status: 0, out: /^svc-capture\.tar\.gz: / })
  for (const other of ['none', 'huge']) {
    t.match(await run(other), { status: 1, err: /answer of the node is not a bundle/ }, other)
  }
  t.match(await run('weak'), { status: 5 })
})
