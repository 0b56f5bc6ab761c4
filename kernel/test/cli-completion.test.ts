import t from 'tap'
import { spawnSync } from 'node:child_process'
import { candidates } from '../cli/verbs/completion.js'
import { builtIn, collectVerbs } from '../cli/builtin.js'
import capabilities from '../../plugins/capabilities/index.js'
import { globalOptions } from '../cli/help.js'
import { cli, sendJson, standIn } from './cli-helpers.js'

const own = collectVerbs(builtIn, [capabilities.manifest])
let builtIns = own

const names = {
  plugins: async () => ['runners', 'access'],
  capabilities: async () => ['tts@1.0.0'],
  models: async () => ['acme/chat', 'acme/voice:Q4'],
  nodes: async () => ['attic', 'cellar'],
  instances: async () => ['7d0f8a52'],
  settings: async () => ['api.port', 'api.host'],
  topics: () => ['exit-codes']
}

t.test('what can follow', async (t) => {
  const check = async (line: string, expected: string[] | ((found: string[]) => boolean)): Promise<void> => {
    const found = await candidates(line.split(' '), builtIns, globalOptions, names)
    if (typeof expected === 'function') t.ok(expected(found), `${line}: ${found.join(' ')}`)
    else t.same(found, expected, line)
  }
  await check('', (found) =>
    found.includes('state') && found.includes('plugin') && !found.includes('complete-words'))
  await check('sta', ['state'])
  await check('plugin ', ['disable', 'enable', 'ls'])
  await check('plugin dis', ['disable'])
  await check('plugin disable ', ['access', 'runners'])
  await check('plugin disable runners ', [])
  await check('known rm ', [])
  await check('call ', ['tts@1.0.0'])
  await check('capabilities t', ['tts@1.0.0'])
  await check('capabilities x', [])
  await check('config get api.p', ['api.port'])
  await check('completion ', ['bash', 'fish', 'zsh'])
  await check('state --w', ['--wait'])
  await check('--home /x state --j', ['--json'])
  await check('state --home ', [])
  await check('call -o ', [])
  await check('help exit', ['exit-codes'])
  await check('help plu', ['plugin'])
  await check('nonsense x', [])
  const placing = { owner: 'x', load: async () => ({ default: null }), summary: '' }
  builtIns = [...own,
    { ...placing, name: 'place', args: '<model>', options: [['--exclude <node...>', '']] },
    { ...placing, name: 'stop', args: '<instance-or-model>' }, { ...placing, name: 'rm', args: '<model...>' },
    { ...placing, name: 'say', args: '<text>', options: [['--model <id>', ''], ['--node <id>', '']] }]
  await check('place ', ['acme/chat', 'acme/voice:Q4'])
  await check('place acme/v', ['acme/voice:Q4'])
  await check('place acme/chat ', [])
  await check('place acme/chat --exclude c', ['cellar'])
  await check('stop ', ['7d0f8a52', 'acme/chat', 'acme/voice:Q4'])
  await check('rm acme/chat acme/', ['acme/chat', 'acme/voice:Q4'])
  await check('say hello', [])
  await check('say hello --model ', ['acme/chat', 'acme/voice:Q4'])
  await check('call --node ', ['attic', 'cellar'])
})

t.test('names of a running node; none where it is silent, slow or not there', async (t) => {
  const state = {
    nodeIdentities: { n1: { friendlyName: 'attic' }, n2: { friendlyName: null } }, instances: { i1: {} }
  }
  const node = await standIn(t, {
    'GET /v1/models': (response) => { sendJson(response, { data: [{ id: 'acme/chat' }] }) },
    'GET /state': (response) => { sendJson(response, state) }
  })
  const hung = await standIn(t, { 'GET /state': () => {} })
  const check = async (url: string, words: string[], out: string): Promise<void> => {
    const ran = await cli(['complete-words', '--url', url, '--home', t.testdir({}), '--', ...words],
      { plugins: [capabilities] })
    t.strictSame([ran.status, ran.out, ran.err], [0, out, ''], `${url} ${words.join(' ')}`)
  }
  await check(node.url, ['call', '--node', ''], 'attic\nn2\n')
  await check(hung.url, ['call', '--node', ''], '')
  await check('http://127.0.0.1:1', ['call', '--node', ''], '')
})

t.test('names that cannot be had are left out', async (t) => {
  const gone = { ...names, capabilities: async () => { throw new Error('no node') } }
  t.same(await candidates(['call', ''], own, globalOptions, gone), [])
})

t.test('svc complete-words prints one word per line', async (t) => {
  const ran = await cli(['complete-words', '--', 'plugin', 'en'])
  t.equal(ran.out, 'enable\n')
  const options = await cli(['complete-words', '--', 'state', '--wa'])
  t.equal(options.out, '--wait\n')
})

t.test('the scripts are printed, ask svc, and their shell can read them', async (t) => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { status, out } = await cli(['completion', shell])
    t.equal(status, 0)
    t.match(out, /svc complete-words/)
    const parsed = spawnSync(shell, ['-n'], { input: out, encoding: 'utf8' })
    if (parsed.error === undefined) t.equal(parsed.status, 0, `${shell}: ${parsed.stderr}`)
    else t.match(parsed.error, { code: 'ENOENT' }, `${shell} is not installed here`)
  }
})

t.test('bash completes a verb through the script', async (t) => {
  const { out } = await cli(['completion', 'bash'])
  const folder = t.testdir({ svc: '#!/bin/sh\nshift 2\nprintf "%s\\n" "$*-done"\n' })
  const script = `chmod +x "${folder}/svc"; PATH="${folder}:$PATH"; ${out}
COMP_WORDS=(svc plugin dis); COMP_CWORD=2; _svc_words; printf '%s|' "\${COMPREPLY[@]}"`
  const ran = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
  t.equal(ran.stdout, 'plugin dis-done|', ran.stderr)
})
