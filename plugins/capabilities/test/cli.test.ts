import t from 'tap'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { cli as run, frames, listed, listing, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import capabilities from '../index.js'
import type { Given, Ran } from '../../../kernel/test/cli-helpers.js'

const cli = async (argv: readonly string[], given: Given = {}): Promise<Ran> =>
  await run(argv, { plugins: [capabilities], ...given })

t.test('capabilities: a list, one with its schema, and the bodies as they are', async (t) => {
  const body = listing(listed(), listed({ id: 'other' }))
  const { url, asked } = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, body) }
  })
  t.match((await cli(['capabilities', '--url', url])).out,
    /echo@1\.0\.0 +Echo +server_streaming +0123456789abcdef +n1/)
  const one = await cli(['capabilities', 'echo@1.0.0', '--url', url])
  t.match(one.out, /Input \(no other fields\):\nFIELD +REQUIRED +VALUE +MEANING\ntext +yes +text\n/)
  t.match(one.out, /\ncount +- +a whole number of at least 1/)
  t.match(one.out, /Descriptor:\n\{\n {2}"id": "echo"/)
  t.same(JSON.parse((await cli(['capabilities', '--json', '--url', url])).out), body)
  t.same(JSON.parse((await cli(['capabilities', 'echo', '--json', '--url', url])).out), listed())
  const wrong = await cli(['capabilities', 'ehco@1.0.0', '--url', url])
  t.equal(wrong.status, 3)
  t.match(wrong.err, /no capability "ehco@1\.0\.0"; did you mean echo@1\.0\.0\?/)
  await cli(['capabilities', '--node', 'n 2', '--url', url])
  t.equal(asked.at(-1)?.url, '/v1/capabilities?node_id=n%202')
})

t.test('call: media to a file or a pipe, never to a terminal', async (t) => {
  const sound = frames({ kind: 'started' }, { kind: 'chunk', payload: { index: 0 }, bytes: 'ABC' },
    { kind: 'chunk', payload: { index: 1 }, bytes: 'DEF' }, { kind: 'completed' })
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, listing(listed())) },
    'POST /v1/capabilities/stream': (response) => { response.end(sound) }
  })
  const cwd = t.testdir({})
  const call = ['call', 'echo@1.0.0', '--text', 'hi there', '--count', '2', '--url', node.url]
  const piped = await cli(call, { cwd })
  t.equal(piped.bytes.toString(), 'ABCDEF')
  t.same(node.asked.at(-1)?.body, { capability_id: 'echo', version: '1.0.0',
    descriptor_revision: '0123456789abcdef', payload: { text: 'hi there', count: 2 } })
  t.equal(node.asked.at(-1)?.headers.accept, 'application/vnd.svc.frames')
  const file = await cli([...call, '-o', 'a.mp3'], { cwd })
  t.equal(file.out, '')
  t.match(file.err, /a\.mp3: 6 bytes/)
  t.equal(readFileSync(join(cwd, 'a.mp3'), 'utf8'), 'ABCDEF')
  t.same(readdirSync(cwd), ['a.mp3'])
  const terminal = await cli(call, { cwd, terminal: true })
  t.notMatch(terminal.out, /ABC/)
  t.match(terminal.err, /6 bytes of media were not written; -o FILE saves them/)
  t.equal((await cli([...call, '-o', '-'], { cwd, terminal: true })).status, 2)
  const json = await cli([...call, '--json'], { cwd })
  t.same(json.out.trim().split('\n').map((line) => JSON.parse(line).kind),
    ['started', 'chunk', 'chunk', 'completed'])
})

t.test('call: payloads from JSON, files and stdin; fields go over them', async (t) => {
  const node = await standIn(t, {
    'GET /v1/capabilities': (response) => { sendJson(response, listing(listed({ io_mode: 'unary' }))) },
    'POST /v1/capabilities/call': (response, { body }) => {
      sendJson(response, { call_id: 'c', ok: true, result: (body as { payload: unknown }).payload })
    }
  })
  const cwd = t.testdir({ 'p.json': '{"text":"file","count":1}' })
  const check = async (args: string[], expected: unknown, stdin?: string): Promise<void> => {
    const given = stdin === undefined ? { cwd } : { cwd, stdin }
    const ran = await cli(['call', 'echo', '--url', node.url, ...args], given)
    t.same(JSON.parse(ran.out), expected, args.join(' '))
  }
  await check(['--payload', '{"text":"a"}'], { text: 'a' })
  await check(['--payload', '@p.json', '--count', '5'], { text: 'file', count: 5 })
  await check(['--payload', '-'], { text: 'in' }, '{"text":"in"}')
  await check(['--text', 'x', '--json'], { call_id: 'c', ok: true, result: { text: 'x' } })
  const wrong = async (args: string[], message: RegExp): Promise<void> => {
    const ran = await cli(['call', 'echo', '--url', node.url, ...args], { cwd })
    t.equal(ran.status, 2, args.join(' '))
    t.match(ran.err, message)
  }
  await wrong(['--payload', '{'], /--payload is not JSON/)
  await wrong(['--payload', '@none.json'], /cannot read none\.json/)
  await wrong(['--payload', '[1]', '--text', 'a'], /must be an object/)
  await wrong(['--txt', 'a'], /did you mean --text/)
  await wrong(['--timeout', '301'], /--timeout 301: expected seconds/)
})

t.test('call: a failed or broken stream fails, and leaves no file', async (t) => {
  const failed = { message: 'the runner died', code: 500, reason: 'instance_lost', type: 'X', details: {} }
  const check = async (bytes: Buffer, status: number, message: RegExp): Promise<void> => {
    const { url } = await standIn(t, {
      'GET /v1/capabilities': (response) => { sendJson(response, listing(listed())) },
      'POST /v1/capabilities/stream': (response) => { response.end(bytes) }
    })
    const cwd = t.testdir({})
    const ran = await cli(['call', 'echo', '--text', 'a', '-o', 'a.mp3', '--url', url], { cwd })
    t.equal(ran.status, status)
    t.match(ran.err, message)
    t.same(readdirSync(cwd), [], 'nothing half-written stays')
  }
  const begun = [{ kind: 'started' }, { kind: 'chunk', bytes: 'ABC' }]
  await check(frames(...begun, { kind: 'failed', error: failed }), 1,
    /the runner died \(500 instance_lost\)/)
  await check(frames(...begun), 1, /ended early: .*without a terminal frame/)
  await check(frames({ kind: 'started' }, { kind: 'cancelled' }), 1, /the call was cancelled/)
  t.notOk(existsSync(join(t.testdirName, 'a.mp3')))
})
