import t from 'tap'
import { writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { definePlugin, type Plugin } from '../api/plugin.js'
import { startTicks } from '../boot/home.js'
import { builtIn, collectVerbs } from '../cli/builtin.js'
import { isLoopbackUrl, ownToken, runningUrl } from '../cli/client.js'
import { cli, sendError, sendJson, standIn } from './cli-helpers.js'
import type { Verb, VerbContext } from '../cli/verb.js'

interface Seen { args: string[], options: Record<string, unknown>, ctx: VerbContext }

/** A plugin whose verbs only record their arguments. */
function probe (seen: Seen[]): Plugin {
  const verb: Verb = {
    async run (ctx, args, options) {
      seen.push({ ctx, args, options })
      if (options['code'] !== undefined) return Number(options['code'])
    }
  }
  const load = async (): Promise<{ default: unknown }> => ({ default: verb })
  const options = [['--code <n>', 'exit status'], ['-f, --flag', 'a flag'], ['--many <x...>', 'several'],
    ['--wait [s]', 'wait']] as const
  return definePlugin({ name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Probe.', verbs: {
    probe: { summary: 'probe', args: '[first] [second]', options, examples: ['svc probe a'], load },
    'pair up': { summary: 'two words', args: '<who>', options, load }
  } }, () => ({}))
}

t.test('words become a verb, arguments and options', async (t) => {
  type Found = Promise<VerbContext | undefined>
  const check = async (line: string, args: string[], options: object, status = 0): Found => {
    const seen: Seen[] = []
    const ran = await cli(line.split(' '), { plugins: [probe(seen)], cwd: '/work' })
    t.equal(ran.status, status, line)
    t.same(seen[0]?.args, args, line)
    t.has(seen[0]?.options, options, line)
    return seen[0]?.ctx
  }
  await check('probe a b', ['a', 'b'], {})
  await check('probe -f a', ['a'], { flag: true })
  await check('probe --code 3', [], { code: '3' }, 3)
  await check('probe -- -x', ['-x'], {})
  await check('probe -', ['-'], {})
  await check('pair up me', ['me'], {})
  await check('pair up me --many a b', ['me'], { many: ['a', 'b'] })
  t.equal((await check('probe --home h --json', [], { json: true }))?.home, '/work/h')
  t.equal((await check('--json probe', [], {}))?.out.json, true)
  t.equal((await check('probe', [], {}))?.home, `${homedir()}/.svc`)
  t.equal((await check('probe', [], {}))?.wait, undefined)
  t.equal((await check('probe --wait a', ['a'], {}))?.wait, 60, 'a bare --wait takes no argument away')
  t.equal((await check('probe --wait=5', [], {}))?.wait, 5)
  t.equal((await check('probe --wait=0', [], {}))?.wait, 0)
})

t.test('wrong usage is exit 2 and says what is wrong', async (t) => {
  const check = async (line: string, message: RegExp): Promise<void> => {
    const ran = await cli(line.split(' '), { plugins: [probe([])] })
    t.equal(ran.status, 2, line)
    t.equal(ran.out, '', 'nothing on stdout')
    t.match(ran.err, message, line)
  }
  await check('stat', /unknown command 'stat'\n\(Did you mean state\?\)/)
  await check('prob', /Did you mean probe\?/)
  await check('state --jsno', /unknown option '--jsno'\n\(Did you mean --json\?\)/)
  await check('probe a b c', /too many arguments/)
  await check('pair up', /missing required argument 'who'/)
  await check('pair dwon', /unknown command 'dwon'/)
  await check('config', /Usage: svc config/)
  await check('state --url', /argument missing/)
  await check('probe --wait=soon', /--wait=soon: expected a number of seconds/)
  await check('help nothing', /no help about "nothing"/)
  await check('up --port 70000', /--port 70000: expected a whole number from 0 to 65535/)
  await check('completion tcsh', /no completion for "tcsh"; supported: bash, zsh, fish/)
})

t.test('help goes to stdout and is exit 0', async (t) => {
  const check = async (line: string, message: RegExp): Promise<void> => {
    const ran = await cli(line === '' ? [] : line.split(' '), { plugins: [probe([])] })
    t.equal(ran.status, 0, line)
    t.match(ran.out, message, line)
    t.equal(ran.err, '')
  }
  await check('', /Usage: svc/)
  await check('--help', /Run a cluster:\n {2}up [\s\S]*Set it up:\n[\s\S]*help \[topic...\]/)
  await check('--help', /\nOf your plugins:\n {2}probe /)
  await check('help', /Usage: svc/)
  await check('help probe', /Examples:\n {2}svc probe a/)
  await check('help plugin enable', /Usage: svc plugin enable \[options\] <name>/)
  await check('state --help', /Global Options:[\s\S]*--json/)
  await check('help environment', /SVC_URL/)
  await check('--version', /^\d+\.\d+\.\d+\n$/)
})

t.test('built-in verbs do not import the plugins; others do', async (t) => {
  const { url } = await standIn(t, { 'GET /state': (response) => { sendJson(response, {}) } })
  t.equal((await cli(['state', '--url', url, '--token', 'svc_app'])).pluginsAsked, 0)
  t.equal((await cli(['--url', url, 'state', '--json', '--token', 'svc_app'])).pluginsAsked, 0)
  t.equal((await cli(['state', '--url', url])).pluginsAsked, 1, 'without a token one may sign the request')
  t.equal((await cli(['probe'], { plugins: [probe([])] })).pluginsAsked, 1)
  t.equal((await cli(['--help'])).pluginsAsked, 1)
})

t.test('two verbs of one name are refused', async (t) => {
  const make = (verb: string): Plugin => definePlugin({ name: 'x', version: '1.0.0', kernel: '^1.0.0',
    summary: 'X.', verbs: { [verb]: { summary: 'x', load: async () => ({ default: null }) } } }, () => ({}))
  t.throws(() => collectVerbs(builtIn, [make('state').manifest]),
    /the verb "state" is declared by both "kernel" and "x"/)
  t.throws(() => collectVerbs(builtIn, [make('plugin').manifest]), /the verb "plugin" is declared by both/)
  t.doesNotThrow(() => collectVerbs(builtIn, [make('plugin fly').manifest]))
})

t.test('a token file that the own node does not take is named, with what to do', async (t) => {
  const node = await standIn(t, {
    'GET /state': (response) => { sendError(response, 401, 'unauthenticated') }
  })
  const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  const home = t.testdir({
    run: { 'node.json': JSON.stringify({ format: 1, url: node.url, processes }) }, 'operator.token': 'x\n'
  })
  const words = new RegExp(`accept the token in ${home}/operator\\.token: .* remove the file; the next start`)
  t.match(await cli(['state', '--home', home]), { status: 5, err: words })
  writeFileSync(join(home, 'operator.token'), '')
  t.match(await cli(['state', '--home', home]), { status: 5, err: words })
  const given = await cli(['state', '--home', home, '--token', 'svc_app'])
  t.match(given, { status: 5, err: /401 unauthenticated/ })
})

t.test('which node is asked, and with which token', async (t) => {
  const node = await standIn(t, { 'GET /state': (response) => { sendJson(response, {}) } })
  const running = JSON.stringify({
    format: 1, url: node.url, nodeId: 'n',
    processes: [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  })
  const home = t.testdir({ run: { 'node.json': running }, 'operator.token': 'svc_op_secret\n' })
  const check = async (args: string[], env: NodeJS.ProcessEnv, authorization?: string): Promise<void> => {
    t.equal((await cli(['state', ...args], { env })).status, 0)
    t.equal(node.asked.pop()?.headers.authorization, authorization, args.join(' '))
  }
  await check([], { SVC_HOME: home }, 'Bearer svc_op_secret')
  await check(['--home', home], { SVC_HOME: '/nowhere' }, 'Bearer svc_op_secret')
  await check(['--home', home, '--token', 'mine'], {}, 'Bearer mine')
  await check(['--home', home], { SVC_TOKEN: 'env' }, 'Bearer env')
  await check(['--home', home, '--token', 'mine'], { SVC_TOKEN: 'env' }, 'Bearer mine')
  await check(['--home', home], { SVC_TOKEN: 'env\r\n' }, 'Bearer env')
  await check(['--home', home, '--token', ' mine\n'], {}, 'Bearer mine')
  const odd = [[[], { SVC_TOKEN: 'a\nb' }, 'SVC_TOKEN'], [['--token', 'ä'], {}, '--token']] as const
  for (const [words, env, name] of odd) {
    const ran = await cli(['state', '--home', home, ...words], { env })
    t.match(ran, { status: 2, err: new RegExp(`svc: ${name}: a token is ASCII text`) })
  }
  await check(['--url', node.url], { SVC_HOME: '/nowhere' }, undefined)
  await check([], { SVC_URL: `${node.url}/`, SVC_HOME: '/nowhere' }, undefined)
  const broken = (text: string): void => {
    writeFileSync(`${home}/run/node.json`, text)
    t.equal(runningUrl(home), 'http://127.0.0.1:52415', text)
  }
  broken('{')
  broken('{"format":2,"url":"http://127.0.0.1:1"}')
  broken('{"format":1}')
  t.equal(runningUrl('/nowhere'), 'http://127.0.0.1:52415')
})

t.test('the operator token goes to this host only', async (t) => {
  const check = (url: string, own: boolean): void => { t.equal(isLoopbackUrl(url), own, url) }
  check('http://127.0.0.1:1', true)
  check('http://127.9.9.9', true)
  check('http://localhost:52415', true)
  check('http://[::1]:80', true)
  check('http://10.0.0.1', false)
  check('http://127.0.0.1.example.net', false)
  check('http://localhost.example.net', false)
  check('https://example.net/?127.0.0.1', false)
  check('nonsense', false)
})

t.test('other verbs find the nodes of svc dev, each with its own token', (t) => {
  const running = (port: number, pid: number): Record<string, string | Record<string, string>> => ({
    run: { 'node.json': JSON.stringify({ format: 1, url: `http://127.0.0.1:${port}`, nodeId: 'n',
      processes: [{ pid, startTicks: startTicks(pid) }] }) },
    'operator.token': `token-${port}\n`
  })
  const { pid } = process
  const home = t.testdir({ 'operator.token': 'own\n',
    dev: { node1: running(7001, pid), node2: running(7003, pid), node10: running(7019, pid) } })
  t.equal(runningUrl(home), 'http://127.0.0.1:7001')
  t.equal(ownToken(home, 'http://127.0.0.1:7003/'), 'token-7003')
  t.equal(ownToken(home, 'http://127.0.0.1:1'), undefined, 'nobody gets it where no node of this home runs')
  const reused = t.testdir({ 'operator.token': 'own', run: { 'node.json': JSON.stringify({
    format: 1, url: 'http://127.0.0.1:1', processes: [{ pid, startTicks: '1' }] }) } })
  t.equal(ownToken(reused, 'http://127.0.0.1:1'), undefined, 'its pid is another process by now')
  t.equal(ownToken(home, 'http://10.0.0.1:7003'), undefined)
  const dead = t.testdir({ dev: { node1: running(7001, 2 ** 30) } })
  t.equal(runningUrl(dead), 'http://127.0.0.1:52415', 'a node that is gone is not asked')
  t.end()
})
