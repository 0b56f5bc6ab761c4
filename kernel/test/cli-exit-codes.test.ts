import t from 'tap'
import { createServer, type AddressInfo } from 'node:net'
import { exitCodeFor, exitCodeMeanings, exitCodes } from '../cli/errors.js'
import { definePlugin } from '../api/plugin.js'
import { cli, sendError, standIn } from './cli-helpers.js'

t.test('every status and reason has its exit code', async (t) => {
  const check = (status: number, reason: string | undefined, code: number): void => {
    t.equal(exitCodeFor(status, reason), code, `${status} ${reason ?? ''}`)
  }
  check(400, 'invalid_request', 2)
  check(400, 'invalid_payload', 2)
  check(400, 'insufficient_memory', 6)
  check(401, 'unauthenticated', 5)
  check(403, 'missing_grant', 5)
  check(404, 'no_instance', 3)
  check(404, undefined, 3)
  check(409, 'revision_mismatch', 1)
  check(413, 'payload_too_large', 1)
  check(429, 'overloaded', 4)
  check(500, 'instance_lost', 1)
  check(502, 'unreachable', 7)
  check(502, 'provider_error', 1)
  check(503, 'shutting_down', 4)
  check(504, 'timeout', 1)
  check(504, 'not_ready_yet', 4)
  check(418, undefined, 1)
})

t.test('svc help exit-codes lists all of them', async (t) => {
  const { status, out } = await cli(['help', 'exit-codes'])
  t.equal(status, 0)
  for (const code of Object.values(exitCodes)) t.match(out, new RegExp(`^ +${code} `, 'm'))
  t.equal(exitCodeMeanings.length, Object.keys(exitCodes).length)
})

t.test('a run ends with the code of the answer it got', async (t) => {
  const { url } = await standIn(t, {
    'GET /state': (response, { headers }) => {
      const token = String(headers.authorization).replace('Bearer ', '')
      const [status, reason] = token.split('-') as [string, string]
      const issues = [{ path: 'a.b', message: 'is odd' }]
      sendError(response, Number(status), reason, { remedy: 'Do that.', issues })
    }
  })
  const check = async (status: number, reason: string, code: number): Promise<void> => {
    const ran = await cli(['state', '--url', url, '--token', `${status}-${reason}`])
    t.equal(ran.status, code, reason)
    t.equal(ran.out, '', 'nothing on stdout')
    t.match(ran.err, new RegExp(`it is ${reason} \\(${status} ${reason}\\)\n  a.b: is odd\n  Do that.`))
  }
  await check(401, 'unauthenticated', 5)
  await check(404, 'not_found', 3)
  await check(503, 'not_ready', 4)
  await check(500, 'internal', 1)
  const json = await cli(['state', '--json', '--url', url, '--token', '403-missing_grant'])
  t.equal(json.status, 5)
  t.match(JSON.parse(json.err), { error: { reason: 'missing_grant', code: 403, requestId: 'r1' } })
})

t.test('no node, no svc and bad addresses', async (t) => {
  const gone = createServer()
  await new Promise<void>((resolve) => { gone.listen(0, '127.0.0.1', resolve) })
  const free = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`
  await new Promise((resolve) => { gone.close(resolve) })
  const page = await standIn(t, { 'GET /state': (response) => { response.end('<html>') } })
  const teapot = await standIn(t, { 'GET /state': (response) => { response.writeHead(503).end('busy') } })
  const cut = await standIn(t, { 'GET /state': (response) => {
    response.writeHead(200, { 'content-length': 100 }).write('{')
    setImmediate(() => { response.destroy() })
  } })
  const check = async (url: string, code: number, message: RegExp): Promise<void> => {
    const ran = await cli(['state', '--url', url])
    t.equal(ran.status, code, url)
    t.match(ran.err, message)
  }
  await check(free, 7, /no node answers at .*nothing listens there; start one with `svc up`/)
  await check('http://name.invalid', 7, /no node answers/)
  await check('ftp://x', 2, /is not an address/)
  await check('nonsense', 2, /is not an address/)
  await check(page.url, 1, /did not answer with JSON/)
  await check(teapot.url, 4, /answered 503: busy/)
  await check(cut.url, 1, /ended the answer early/)
})

t.test('Ctrl-C ends with 130', async (t) => {
  const stop = new AbortController()
  const { url } = await standIn(t, { 'GET /state': () => { stop.abort() } })
  const ran = await cli(['state', '--url', url], { signal: stop.signal })
  t.equal(ran.status, 130)
  t.match(ran.err, /interrupted/)
})

t.test('an error of a command names what explains it', async (t) => {
  const id = '6f0d5f9e-8f1c-4a52-9a39-0f3d5a1c2b44'
  const { url } = await standIn(t, {
    'GET /state': (response, { headers }) => {
      const [status, commandId] = String(headers.authorization).replace('Bearer ', '').split('_')
      response.setHeader('x-svc-command-id', commandId!)
      sendError(response, Number(status), 'instance_lost',
        status === '502' ? { begun: false } : {})
    }
  })
  const rows: [string, boolean][] = [
    [`500_${id}`, true], [`504_${id}`, true], [`503_${id}`, false],
    [`502_${id}`, false], [`404_${id}`, false],
    ['500_$(reboot)', false]
  ]
  const verbs = { why: { summary: 'x', explainsCommands: true, load: async () => ({ default: null }) } }
  const named = { name: 'p', version: '1.0.0', kernel: '^1.0.0', summary: 's' } as const
  const plugin = definePlugin({ ...named, verbs }, () => ({}))
  const alone = await cli(['state', '--url', url, '--token', rows[0]![0]])
  t.notMatch(alone.err, /what happened/, 'nobody explains')
  for (const [token, named] of rows) {
    const { err } = await cli(['state', '--url', url, '--token', token], { plugins: [plugin] })
    t.equal(err.includes(`\n  what happened: svc why ${id}\n`), named, token)
    t.notMatch(err, 'reboot')
  }
})
