import { readFileSync } from 'node:fs'
import t from 'tap'
import { CLIENT_PAGES, withClients, type TestedClient } from '../docs/clients.js'
import { referencePages, withTables } from '../docs/pages.js'
import { replyTypes } from '../docs/replies.js'
import { version } from '../kernel/boot/package.js'
import { bundled } from '../plugins/index.js'

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8')
const STALE = 'is stale: run npm run docs'

t.test('the reference pages match the declarations', async (t) => {
  const pages = referencePages(bundled, version())
  pages.set('docs/reference/replies.d.ts', await replyTypes(pages.get('docs/reference/openapi.json')!))
  for (const [path, text] of pages) t.equal(read(path), text, `${path} ${STALE}`)
})

t.test('so does the generated part of each plugin\'s README', (t) => {
  for (const { manifest } of bundled) {
    const path = `plugins/${manifest.name}/README.md`
    t.equal(read(path), withTables(read(path), manifest), `${path} ${STALE}`)
  }
  t.end()
})

t.test('the tables of clients match the report of their tests', (t) => {
  const clients = JSON.parse(read('docs/operations/clients.json')) as TestedClient[]
  t.ok(clients.length > 0)
  for (const path of Object.keys(CLIENT_PAGES) as (keyof typeof CLIENT_PAGES)[]) {
    t.equal(read(path), withClients(path, read(path), clients), `${path} ${STALE}`)
  }
  t.throws(() => withClients('README.md', '# svc\n', clients), { message: /README.md lacks the markers/ })
  t.end()
})

t.test('a README without the markers is refused by name', (t) => {
  const { manifest } = bundled[0]!
  t.throws(() => withTables('# cluster\n', manifest), { message: /README of "cluster" lacks the markers/ })
  const turned = '<!-- /generated -->\n<!-- generated -->'
  t.throws(() => withTables(turned, manifest), { message: /lacks the markers/ })
  t.end()
})
