import t from 'tap'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { definePlugin } from '../../../kernel/index.js'
import { packageRoot } from '../../../kernel/boot/package.js'
import { startTicks } from '../../../kernel/boot/home.js'
import { cli as run, sendError, standIn, type Ran } from '../../../kernel/test/cli-helpers.js'
import packages from '../index.js'

const cli = async (words: string[], cwd: string): Promise<Ran> =>
  await run(['plugin', ...words], { plugins: [packages], cwd })

t.test('verbs that work on a home are refused with the address of another node', async (t) => {
  const home = join(t.testdir({}), 'home')
  for (const words of ['rm x', 'install ./x', 'show x']) {
    const url = 'http://127.0.0.1:1'
    const ran = await cli([...words.split(' '), '--home', home, '--url', url], t.testdirName)
    t.match(ran, { status: 2, err: `${home}, but none of its nodes has the address ${url}` })
  }
  t.notOk(existsSync(home))
})

t.test('a home that cannot be made is an error', async (t) => {
  const { status, err } = await cli(['install', './x', '--home', '/proc/x'], t.testdir({ x: {} }))
  t.equal(status, 1)
  t.match(err, /cannot create the home \/proc\/x: ENOENT.*--home/)
})

t.test('an install that the node refuses says to install again, not to enable what is gone', async (t) => {
  const { url } = await standIn(t, { 'POST /v1/plugins/demo': (response) => {
    sendError(response, 409, 'plugin_failed', { remedy: 'Fix it, and enable it again.' })
  } })
  const processes = [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  const home = t.testdir({
    run: { 'node.json': JSON.stringify({ format: 1, url, processes }) },
    demo: {
      'package.json': '{ "name": "demo", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
      'index.js': 'export default { start () {}, manifest: { name: "demo", version: "1.0.0", ' +
        'kernel: "^1.0.0", summary: "S." } }'
    }
  })
  const { status, err } = await run(['plugin', 'install', './demo', '--yes', '--home', home],
    { plugins: [packages], cwd: home, env: { PATH: process.env['PATH'], HOME: process.env['HOME'] } })
  t.equal(status, 1)
  t.match(err, /it is plugin_failed\n {2}Fix the plugin and install it again: it is not installed/)
  t.notMatch(err, /enable/)
  t.notOk(existsSync(join(home, 'svc.yaml')))
})

t.test('plugin new writes a project whose test passes', async (t) => {
  const cwd = t.testdir({})
  const made = await cli(['new', 'demo-echo', '--home', join(cwd, 'home')], cwd)
  t.equal(made.status, 0, made.err)
  const folder = join(cwd, 'demo-echo')
  t.match(made.out, /plugins:\n {4}demo-echo:\n {6}module: "\.\.\/demo-echo\/index\.js"/)
  const { devDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as
    { devDependencies: { svc: string } }
  t.equal(realpathSync(resolve(folder, devDependencies.svc.replace('file:', ''))), packageRoot())
  const check = async (words: string[], status: number, err: RegExp): Promise<void> => {
    t.match(await cli([...words, '--home', cwd], cwd), { status, err }, words.join(' '))
  }
  await check(['new', 'demo-echo'], 1, /is not empty/)
  await check(['new', 'Demo'], 2, /lower-case letters/)
  await check(['new', 'packages'], 2, /ships with svc/)
  const kit = join(packageRoot(), 'dist/kernel/testing/index.js')
  if (!existsSync(kit)) return t.fail('compile first: npm run prepare')
  const { NODE_OPTIONS: _, ...env } = process.env
  const ran = spawnSync(process.execPath, ['test/index.test.js'], { cwd: folder, env, encoding: 'utf8' })
  t.equal(ran.status, 0, ran.stdout + ran.stderr)
  t.match(ran.stdout, /^ok 3 - /m)
  const own = readFileSync(join(packageRoot(), 'package.json'), 'utf8')
  const { devDependencies: { tap } } = JSON.parse(own) as { devDependencies: { tap: string } }
  t.match(readFileSync(join(folder, 'package.json'), 'utf8'), `"tap": "^${tap}"`)
})

const store = definePlugin({
  name: 'store', version: '1.0.0', kernel: '^1.0.0', summary: 'Keeps things.',
  authorities: { 'store:write': 'Change the store.' },
  errors: { store_full: { status: 507, retryable: false, message: 'Full.', remedy: 'Free some.' } },
  config: { type: 'object', additionalProperties: false, properties: {
    size: { type: 'integer', minimum: 1, default: 5, description: 'GiB.' } } }
}, () => ({}))
const shop = definePlugin({
  name: 'shop', version: '1.0.0', kernel: '^1.0.0', summary: 'Sells things.', requires: ['store']
}, () => ({}))
const plugins = [store, shop, packages]

t.test('show tells everything a plugin declares', async (t) => {
  const home = t.testdir({})
  const { out } = await run(['plugin', 'show', 'store', '--home', home], { plugins })
  t.match(out, /store 1\.0\.0 \(bundled\)\nKeeps things\.\nrequires: nothing\nrequired by: shop/)
  t.match(out, /Errors\nREASON .*\nstore_full +507/)
  t.match(out, /plugins\.store\nKEY +VALUE +MEANING\nsize +a whole number of at least 1 +GiB\./)
  const json = await run(['plugin', 'show', 'store', '--json', '--home', home], { plugins })
  t.equal(JSON.parse(json.out).name, 'store')
})

t.test('docs codes lists the kernel\'s and the plugins\' words', async (t) => {
  const home = t.testdir({})
  const { codes } = JSON.parse((await run(['docs', 'codes', '--json', '--home', home], { plugins })).out) as
    { codes: { kind: string, code: string }[] }
  for (const [kind, code] of [['error', 'store_full'], ['error', 'no_instance'], ['conflict', 'disk_low'],
    ['authority', 'store:write'], ['event', 'NodeJoined']] as const) {
    t.ok(codes.some((c) => c.kind === kind && c.code === code), `${kind} ${code}`)
  }
  t.match((await run(['docs', 'codes', '--home', home], { plugins })).out,
    /error +store_full +507 +store +Full\. +Free some\./)
})
