import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { checkManifests } from '../../../kernel/plugins/registry.js'
import { mayAsk } from '../page/panel-paths.js'
import { moduleOf, panelDocument, panelsOf } from '../panels.js'
import type { Manifest } from '../../../kernel/index.js'

function script (t: { teardown (fn: () => void): void }, text: string): URL {
  const folder = mkdtempSync(join(tmpdir(), 'svc-panel-'))
  t.teardown(() => { rmSync(folder, { recursive: true, force: true }) })
  const path = join(folder, 'panel.js')
  writeFileSync(path, text)
  return pathToFileURL(path)
}

const manifest = (panels: Manifest['panels']): Manifest => ({
  name: 'words', version: '1.0.0', kernel: '^1.0.0', summary: 'Words.',
  ...panels === undefined ? {} : { panels },
  routes: {
    total: { method: 'GET', url: '/v1/words', summary: 's', authority: 'read' },
    reset: { method: 'POST', url: '/v1/words', summary: 's', authority: 'read' }
  }
})

t.test('a panel is listed with the routes it may ask for, and found by its names only', (t) => {
  const module = script(t, '')
  const list = [manifest({ counts: { title: 'Counts', module } })]
  t.same(panelsOf(list), [{ plugin: 'words', name: 'counts', title: 'Counts', routes: ['/v1/words'] }])
  t.equal(moduleOf(list, 'words', 'counts'), module)
  for (const [plugin, name] of [['words', 'other'], ['other', 'counts'], ['words', 'constructor']] as const) {
    t.equal(moduleOf(list, plugin, name), undefined, `${plugin} ${name}`)
  }
  t.same(panelsOf([manifest(undefined)]), [])
  t.end()
})

t.test('its document runs its script and nothing else', (t) => {
  const { html, policy } = panelDocument(script(t, 'const a = "</script><b>"; const b = "<!-- x"'))
  const inside = /<script type="module">([^]*)<\/script>/.exec(html)![1]!
  t.notMatch(inside, /<\/script|<!--/i)
  t.match(policy, `script-src 'sha256-${createHash('sha256').update(inside).digest('base64')}'`)
  t.match(policy, /^sandbox allow-scripts; default-src 'none';/)
  t.notMatch(policy, /unsafe|allow-same-origin|connect-src/)
  t.end()
})

t.test('a panel asks for the routes of its own plugin', (t) => {
  const routes = ['/v1/words', '/v1/words/:id']
  t.ok(mayAsk(['/hello/:a/:b'], '/hello/a/config'))
  t.notOk(mayAsk(['/hello/:a/:b'], '/hello/.\t./config'))
  for (const path of ['/v1/words', '/v1/words?limit=3', '/v1/words/a']) t.ok(mayAsk(routes, path), path)
  for (const path of [
    '/v1/tokens', '/v1/words/', '/v1/words/a/b', '//else.where/v1/words', 'http://else.where/v1/words',
    '/v1/words/..', '/v1/words/%2e%2e', '/v1/words/.', '/v1\\words', '', '/v1/words/%2E.',
    '/v1/words/.\t./tokens', '/v1/words/a/..\n/../tokens', '/v1/words/../tokens', '/v1/words/%2e\r%2e/tokens',
    '/\t/else.where/v1/words', ' /v1/tokens'
  ]) t.notOk(mayAsk(routes, path), path)
  t.end()
})

t.test('a wrong panel is refused at boot, by name', (t) => {
  const cases: [unknown, RegExp][] = [
    [{ 'Bad Name': { title: 'x', module: new URL('file:///x.js') } }, /panel "Bad Name" must be lower-case/],
    [{ counts: { title: '', module: new URL('file:///x.js') } }, /panel "counts" needs a title/],
    [{ counts: { title: 'x', module: './x.js' } }, /panel "counts" needs a module/],
    [{ counts: { title: 'x', module: new URL('https://x.example/x.js') } }, /panel "counts" needs a module/]
  ]
  for (const [panels, problem] of cases) {
    t.match(checkManifests([manifest(panels as NonNullable<Manifest['panels']>)]).join('\n'), problem)
  }
  t.end()
})
