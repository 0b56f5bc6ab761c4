import t from 'tap'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, call, refusal, stream, readStream, type Answer } from './http.js'
import { faultsConfig, fixture, folder, full, root, run, sleep, startNode, svc, until,
  writeConfig } from './kit.js'

const seen = (answer: Answer): string => `${answer.status} ${refusal(answer)?.reason ?? 'fine'}`

t.test('a plugin that throws in every callback', async (t) => {
  const node = await startNode(t,
    { config: faultsConfig({ plugins: { shaky: { module: fixture('shaky.mjs') } } }, { autoplace: [] }) })

  t.test('in a handler', async (t) => {
    for (const [how, expected] of Object.entries({
      ok: '200 fine', throws: '502 provider_error', rejects: '502 provider_error',
      'off schema': '502 invalid_result',
      circular: '502 invalid_result', nothing: '502 invalid_result'
    })) {
      const answer = await ask(node, '/v1/capabilities/call', { body: call(node, 'shaky@1.0.0', { how }) })
      t.equal(seen(answer), expected, `${how}: ${answer.text.slice(0, 200)}`)
      t.notMatch(answer.text, /secret/)
    }
    for (const [how, expected] of Object.entries({
      ok: '200 fine', throws: '500 internal', rejects: '500 internal', text: '500 internal',
      circular: '500 internal'
    })) {
      const answer = await ask(node, `/shaky/${how}`)
      t.equal(seen(answer), expected, `route ${how}: ${answer.text.slice(0, 200)}`)
      t.notMatch(answer.text, /secret/)
    }
  })

  t.test('in a chunk', async (t) => {
    for (const [how, expected, chunks] of [
      ['ok', 'completed null', 1], ['throws later', 'failed provider_error', 1],
      ['off schema', 'failed invalid_result', 1],
      ['throws at the end', 'failed provider_error', 2]
    ] as const) {
      const heard = await readStream(await stream(node, 'drip@1.0.0', { how }))
      const { kind, error } = heard.last!.header
      t.equal(`${kind} ${error?.reason ?? null}`, expected, how)
      t.strictSame([heard.terminals, heard.frames.filter((f) => f.header.kind === 'chunk').length],
        [1, chunks], how)
      t.notMatch(JSON.stringify(heard.last?.header), /secret/)
    }
    for (const [how, expected] of Object.entries({
      throws: '502 provider_error', 'throws first': '502 provider_error', 'no stream': '502 provider_error',
      'bad media': '502 invalid_result'
    })) {
      const answer = await ask(node, '/v1/capabilities/stream', { body: call(node, 'drip@1.0.0', { how }) })
      t.equal(seen(answer), expected, `${how}: ${answer.text.slice(0, 200)}`)
    }
    const left = await stream(node, 'drip@1.0.0', { how: 'throws at the end' })
    await left.frames.next()
    left.abort()
  })

  t.test('in a timer, a listener, a view and a check', async (t) => {
    const state = await ask(node, '/state')
    t.equal(state.status, 200)
    t.notMatch(state.text, /secret/)
    t.equal((await ask(node, '/readyz')).status, 200)
    t.match((await ask(node, '/readyz?model=test/ok')).json, { error: { reason: 'not_ready', details: {
      checks: [{ name: 'master', ok: true }, { name: 'shaky', ok: false, detail: 'cannot say' },
        { name: 'runners' }] } } })
    await sleep(200)
    t.equal((await ask(node, '/healthz')).status, 200, 'its timer ends nothing')
    t.match(node.child.stderr(), /the secret of \/very\/secret\/place/, 'the log has every cause')
  })

  t.test('outside of any handler', async (t) => {
    const idNow = async (): Promise<string | undefined> => {
      const answer = await ask(node, '/state').catch(() => null)
      return (answer?.json as { localNodeId?: string } | undefined)?.localNodeId
    }
    const before = await idNow()
    await ask(node, '/shaky/forgets')
    await until('a new start', async () => ![undefined, before].includes(await idNow()))
    t.match(node.child.stderr(), /a defect: an uncaught error; the node restarts/)
  })

  t.test('in its teardown', async (t) => {
    node.child.process.kill('SIGTERM')
    t.equal(await node.child.ended, 0, 'the node still stops as it should')
    const log = node.child.stderr()
    t.ok(log.indexOf('the last effect is undone') < log.indexOf('the first effect is undone'),
      'in reverse order, all of it')
    t.match(log, /the first effect is undone/)
    t.notOk(existsSync(join(node.home, 'run/node.lock')), 'and the home is given back')
  })
})

/** Source of a plugin without imports. */
const plugin = (name: string, start: string, more = ''): string =>
  `export const manifest = { name: '${name}', version: '1.0.0', kernel: '^1.0.0', summary: 'x'${more} }
export default { manifest, start: ${start} }
`

/** A home whose svc.yaml loads these plugins, each from a separate file. */
function homeWith (t: Parameters<typeof folder>[0], plugins: Record<string, string>): string {
  const home = join(folder(t), 'home')
  writeConfig(home, { plugins: { placement: { autoplace: [] },
    ...Object.fromEntries(Object.keys(plugins).map((name) => [name, { module: `./${name}.mjs` }])) } })
  for (const [name, text] of Object.entries(plugins)) writeFileSync(join(home, `${name}.mjs`), text)
  return home
}

t.test('a refused boot names every problem', async (t) => {
  const up = async (home: string, flags = ['--port', '0']): Promise<string> => {
    const { status, stderr, stdout } = await svc(['up', '--home', home, ...flags])
    t.equal(status, 1)
    t.equal(stdout, '')
    t.notMatch(stderr, /\n\s+at .*\d/, 'no stack')
    t.notOk(existsSync(join(home, 'run/node.lock')), 'the home is given back')
    return stderr
  }

  t.test('plugins that fail in start', async (t) => {
    const said = await up(homeWith(t, {
      one: plugin('one', '() => { throw new Error("no luck with one") }'),
      two: plugin('two', 'async () => { throw new Error("no luck with two") }'),
      liar: plugin('liar', '() => ({ routes: { ghost: () => 1 } })'),
      lazy: plugin('lazy', '() => ({})',
        ', routes: { a: { method: "GET", url: "/a", summary: "a", authority: null } }'),
      ...full ? { slow: plugin('slow', '() => new Promise(() => {})') } : {},
      child: plugin('child', '() => { throw new Error("never tried") }', ', requires: ["one"]')
    }))
    t.match(said, /plugin "one" failed to start: no luck with one/)
    t.match(said, /plugin "two" failed to start: no luck with two/)
    t.match(said, /plugin "liar" failed to start: .*the route "ghost", which the manifest does not declare/)
    t.match(said, /plugin "lazy" failed to start: .*nothing for the declared route "a"/)
    if (full) t.match(said, /plugin "slow" failed to start: start\(\) took over 8 seconds/)
    t.notMatch(said, /never tried/, 'what needs a failed one is not tried')
  })

  t.test('modules that are no plugins', async (t) => {
    const said = await up(homeWith(t, {
      broken: 'export default {', nothing: 'export const x = 1', throws: 'throw new Error("at import")',
      misnamed: plugin('other', '() => ({})')
    }))
    for (const line of [/plugins\.broken\.module: cannot load/, /plugins\.nothing\.module: .*default export/,
      /plugins\.throws\.module: cannot load .*at import/,
      /plugins\.misnamed\.module: .*"other"; use that name/]) t.match(said, line)
  })

  t.test('two plugins with one name, and manifests that clash', async (t) => {
    const route = (authority: string): string =>
      `, routes: { a: { method: "GET", url: "/same/:x", summary: "a"${authority} } }`
    const said = await up(homeWith(t, {
      access: plugin('access', '() => ({})'),
      left: plugin('left', '() => ({})', route(', authority: null')),
      right: plugin('right', '() => ({})', route('')),
      old: plugin('old', '() => ({})').replace('^1.0.0', '^0.1.0'),
      needy: plugin('needy', '() => ({})', ', requires: ["nobody", "runners@^9.0.0"]'),
      hen: plugin('hen', '() => ({})', ', requires: ["egg"]'), egg: plugin('egg', '() => ({})',
        ', requires: ["hen"]')
    }))
    for (const line of [/2 plugins are named "access"/,
      /route "GET \/same\/:x" is declared by both "left" and "right"/,
      /plugin "right", route a .*: it declares no authority; write null for none/,
      /plugin "old" was written for kernel \^0\.1\.0/,
      /plugin "needy" requires "nobody", which is not installed/,
      /plugin "needy" requires runners@\^9\.0\.0, found/,
      /plugins require each other in a cycle: (hen -> egg -> hen|egg -> hen -> egg)/]) t.match(said, line)
  })

  t.test('a svc.yaml with ten mistakes', async (t) => {
    const home = join(folder(t), 'home')
    writeConfig(home, [
      'nmae: attic', 'api:', '  port: 99999', '  hots: 127.0.0.1', 'logging:', '  level: loud',
      '  enabled: "yes"',
      'limits:', '  connections: 0', '  body_kib: many', 'access:', '  local: [reed]', 'plugins:',
      '  runners:', '    threads: 1.5',
      '  nobody: {}', ''
    ].join('\n'))
    const lines = [/svc\.yaml:1:\d+:? .*nmae.*"?name"?/, /svc\.yaml:3:\d+:? .*api\.port/,
      /svc\.yaml:4:\d+:? .*hots.*host/, /svc\.yaml:6:\d+:? .*logging\.level/,
      /svc\.yaml:7:\d+:? .*logging\.enabled/, /svc\.yaml:9:\d+:? .*limits\.connections/,
      /svc\.yaml:10:\d+:? .*limits\.body_kib/,
      /svc\.yaml:12:\d+:? .*access\.local.*reed/, /svc\.yaml:15:\d+:? .*threads/,
      /svc\.yaml:16:\d+:? .*nobody/]
    const check = await svc(['config', 'check', '--home', home])
    t.equal(check.status, 1)
    for (const line of lines) t.match(check.stdout + check.stderr, line)
    const said = await up(home, [])
    for (const line of lines) t.match(said, line)
  })
})

t.test('a new plugin: created, tested, listed, called', async (t) => {
  const where = folder(t)
  const home = join(where, 'home')
  mkdirSync(home)
  const made = await svc(['plugin', 'new', 'demo', '--home', home], { cwd: where })
  t.equal(made.status, 0, made.stderr)
  const { scripts } = JSON.parse(readFileSync(join(where, 'demo/package.json'),
    'utf8')) as { scripts: { test: string } }
  const tested = run('/bin/sh', ['-c', scripts.test], { cwd: join(where, 'demo'),
    env: { PATH: `${join(root, 'node_modules/.bin')}:${process.env['PATH']}` } })
  t.equal(await tested.ended, 0, tested.stdout() + tested.stderr())
  t.match(tested.stdout(), /# \{ total: \d+, pass: [1-9]/)
  const advice = /plugins:\n( +demo:\n +module: .*)$/m.exec(made.stdout)
  t.ok(advice, 'it says what to add to svc.yaml')
  writeConfig(home, `${advice![0]}\n`)
  const node = await startNode(t, { home })
  const flags = ['--home', node.home]
  t.match((await svc(['capabilities', ...flags])).stdout, /demo@1\.0\.0/)
  const shown = JSON.parse((await svc(['capabilities', 'demo@1.0.0', '--json', ...flags])).stdout) as object
  t.match(JSON.stringify(shown), /one chunk per word/)
  t.match((await svc(['plugin', 'ls', ...flags])).stdout, /demo/)
  const called = await svc(['call', 'demo@1.0.0', '--text', 'good morning', '--json', ...flags])
  t.equal(called.status, 0, called.stderr)
  t.match(called.stdout, /"good"[^]*"morning"/)
  t.equal((await svc(['plugin', 'new', 'demo', '--home', home], { cwd: where })).status, 1,
    'never over one that is there')
  t.equal((await svc(['plugin', 'new', 'No_Name', '--home', home], { cwd: where })).status, 2)
  await node.kill()
})

t.test('npm pack, and the tarball installed elsewhere', { skip: full ? false : 'only in the long form' },
  async (t) => {
    const where = folder(t)
    const npm = async (args: string[], cwd: string): Promise<string> => {
      const child = run('npm', args, { cwd, env: { npm_config_update_notifier: 'false' } })
      t.equal(await child.ended, 0, `npm ${args.join(' ')}: ${child.stderr().slice(-500)}`)
      return child.stdout()
    }
    await npm(['pack', '--ignore-scripts', '--pack-destination', where], root)
    writeFileSync(join(where, 'package.json'), '{"private":true}')
    await npm(['install', './svc-0.2.0.tgz', '--prefer-offline', '--no-audit', '--no-fund'], where)
    const home = join(where, 'home')
    const bin = join(where, 'node_modules/.bin/svc')
    const up = run(bin, ['up', '--json', '--home', home, '--port', '0'], { cwd: where })
    t.teardown(async () => { up.process.kill('SIGTERM'); await up.ended })
    await until('svc up', () => {
      if (up.over()) throw new Error(up.stderr())
      return up.stdout().includes('"url"')
    }, { seconds: 60 })
    const said = run(bin, ['say', 'Packed and spoken.', '-o', join(where, 'x.mp3'), '--home', home],
      { cwd: where })
    t.equal(await said.ended, 0, said.stderr())
    t.ok(readFileSync(join(where, 'x.mp3')).length > 1000)
  })

t.test('a verb of a plugin that svc.yaml names', async (t) => {
  const home = folder(t)
  writeFileSync(join(home, 'greet.mjs'), `export default {
    manifest: { name: 'demo', version: '1.0.0', kernel: '^1.0.0', summary: 'Greets.', verbs: { demo: {
      summary: 'greet somebody', args: '<name>', load: () => import('./verb.mjs') } } },
    start: () => ({})
  }`)
  writeFileSync(join(home, 'verb.mjs'),
    'export default { async run (ctx, [name]) { ctx.out.line(`hello ${name}`) } }')
  writeFileSync(join(home, 'svc.yaml'),
    'plugins: { demo: { module: ./greet.mjs }, gone: { module: ./gone.mjs } }')
  const said = await svc(['demo', 'attic', '--home', home])
  t.strictSame([said.status, said.stdout], [0, 'hello attic\n'])
  t.match(said.stderr, /warning: plugins\.gone: cannot load \.\/gone\.mjs/, 'a missing one ends nothing')
  t.match((await svc(['help', '--home', home])).stdout, /demo <name> +greet somebody/)
  t.match((await svc(['complete-words', '--home', home, '--', 'dem'])).stdout, /^demo$/m)
})
