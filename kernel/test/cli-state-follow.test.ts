import t, { type Test } from 'tap'
import { createServer, type ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import { changesBetween, describeChange } from '../cli/verbs/state.js'
import { runCli } from '../cli/program.js'
import { cli } from './cli-helpers.js'
import type { AddressInfo } from 'node:net'

t.test('what changed between two states', (t) => {
  const check = (before: object, after: object, expected: object): void => {
    t.same(changesBetween(new Map(Object.entries(before)), new Map(Object.entries(after))), expected)
  }
  check({}, { a: 1, b: null }, { a: 1, b: null })
  check({ a: { x: [1] } }, { a: { x: [1] } }, {})
  check({ a: { x: [1] }, b: 2 }, { a: { x: [2] }, c: 3 }, { a: { x: [2] }, c: 3, b: null })
  t.end()
})

t.test('a change in words', (t) => {
  const check = (before: unknown, after: unknown, expected: string): void => {
    t.equal(describeChange('key', before, after), expected)
  }
  check(null, 'n1', 'key: "n1"')
  check('n1', null, 'key: null')
  check(undefined, {}, 'key: {}')
  check({ a: 1, b: 2, c: 3 }, { a: 1, b: { x: 1 }, d: 4 }, 'key: ~b {"x":1}\nkey: -c\nkey: +d 4')
  check('x', { a: 1 }, 'key: {"a":1}')
  check(undefined, 'x'.repeat(200), `key: "${'x'.repeat(98)}…`)
  t.end()
})

/** A fake node that serves `GET /state?follow=1`. */
interface Node { url: string, set (state: object): void, renew (state: object): void
  asked: { url: string | undefined, authorization: string | undefined }[] }

async function fakeNode (t: Test, first: object): Promise<Node> {
  const followers = new Set<ServerResponse>()
  let state = first
  const tell = (response: ServerResponse): void => {
    response.write(`: keep-alive\n\ndata: ${JSON.stringify(state)}\n\n`)
  }
  const node: Node = {
    url: '', asked: [],
    set: (next) => {
      state = next
      for (const one of followers) tell(one)
    },
    renew: (next) => {
      state = next
      for (const one of followers) one.destroy()
    }
  }
  const server = createServer((request, response) => {
    node.asked.push({ url: request.url, authorization: request.headers.authorization })
    followers.add(response)
    response.on('close', () => { followers.delete(response) })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    tell(response)
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  node.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return node
}

/** Runs `svc state --follow` and lets the test wait for output lines. */
function follow (t: Test, words: string[]): { lines: () => string[], has (n: number): Promise<void>
  err: () => string, stop (): Promise<number> } {
  const stop = new AbortController()
  let [out, err] = ['', '']
  let heard = (): void => {}
  const into = (take: (text: string) => void): Writable => new Writable({
    write (chunk, _encoding, done) { take(String(chunk)); heard(); done() }
  })
  const over = runCli(['state', '--follow', ...words], {
    io: { stdout: into((text) => { out += text }), stderr: into((text) => { err += text }),
      stdin: process.stdin, env: {}, cwd: t.testdirName },
    plugins: async () => [],
    signal: stop.signal
  })
  const lines = (): string[] => out.split('\n').slice(0, -1)
  return {
    lines,
    err: () => err,
    async has (n) { while (lines().length < n) await new Promise<void>((resolve) => { heard = resolve }) },
    async stop () { stop.abort(); return await over }
  }
}

t.test('state --follow --json: all keys, then the changed ones, until interrupted', async (t) => {
  const node = await fakeNode(t, { sessionId: 's1', masterNodeId: null, gone: 1 })
  const run = follow(t, ['--json', '--url', node.url, '--token', 'secret'])
  await run.has(1)
  node.set({ sessionId: 's1', masterNodeId: 'n1', gone: 1 })
  await run.has(2)
  node.set({ sessionId: 's1', masterNodeId: 'n1', instances: { i1: {} } })
  await run.has(3)
  t.same(run.lines().map((line) => JSON.parse(line)), [
    { sessionId: 's1', masterNodeId: null, gone: 1 }, { masterNodeId: 'n1' },
    { instances: { i1: {} }, gone: null }
  ])
  t.same(node.asked, [{ url: '/state?follow=1', authorization: 'Bearer secret' }])
  t.equal(await run.stop(), 130)
})

t.test('state --follow in words', async (t) => {
  const node = await fakeNode(t, { masterNodeId: null })
  const run = follow(t, ['--url', node.url])
  await run.has(1)
  node.set({ masterNodeId: 'n1', nodeHealth: { n1: { level: 'ok' } } })
  await run.has(3)
  t.same(run.lines(), ['masterNodeId: null', 'masterNodeId: "n1"', 'nodeHealth: {"n1":{"level":"ok"}}'])
  t.equal(await run.stop(), 130)
})

t.test('a connection that ends is made again; only what differs is printed', async (t) => {
  const node = await fakeNode(t, { sessionId: 's1', masterNodeId: 'n1', old: 1 })
  const run = follow(t, ['--json', '--url', node.url])
  await run.has(1)
  node.renew({ sessionId: 's2', masterNodeId: 'n1' })
  await run.has(2)
  t.same(JSON.parse(run.lines()[1]!), { sessionId: 's2', old: null })
  t.equal(node.asked.length, 2)
  t.equal(await run.stop(), 130)
})

t.test('a refusal is an error with the code of its answer', async (t) => {
  const check = async (status: number, reason: string, code: number): Promise<void> => {
    const server = createServer((_request, response) => {
      const error = { message: `it is ${reason}`, reason, code: status, details: {} }
      response.writeHead(status).end(JSON.stringify({ error }))
    })
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    t.teardown(() => { server.closeAllConnections(); server.close() })
    const ran = await cli(['state', '--follow', '--url',
      `http://127.0.0.1:${(server.address() as AddressInfo).port}`])
    t.equal(ran.status, code, reason)
    t.match(ran.err, new RegExp(`it is ${reason} \\(${status} ${reason}\\)`))
    t.equal(ran.out, '')
  }
  await check(401, 'unauthenticated', 5)
  await check(403, 'missing_grant', 5)
  await check(404, 'not_found', 3)
  await check(503, 'not_ready', 4)
  const gone = createServer()
  await new Promise<void>((resolve) => { gone.listen(0, '127.0.0.1', resolve) })
  const { port } = gone.address() as AddressInfo
  await new Promise((resolve) => { gone.close(resolve) })
  const ran = await cli(['state', '--follow', '--url', `http://127.0.0.1:${port}`])
  t.equal(ran.status, 7)
  t.match(ran.err, /no node answers at .*nothing listens there.*svc up/s)
})
