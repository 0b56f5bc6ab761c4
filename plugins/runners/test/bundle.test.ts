import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Manifest } from '../../../kernel/index.js'
import { createBundle } from '../cards/bundle.js'
import { parseCard } from '../cards/card.js'

const fine = readFileSync(new URL('../../../test/node/fixtures/models/ok/card.yaml', import.meta.url), 'utf8')

t.test('one card that cannot be read takes no other model along', async (t) => {
  const folder = t.testdir({ ok: { 'card.yaml': fine }, bad: { 'card.yaml': 'modelId: [' } })
  const at = (name: string): { folder: string } =>
    ({ folder: pathToFileURL(`${join(folder, name)}/`).href })
  const acme: Manifest = {
    name: 'acme', version: '1.0.0', kernel: '^1.0.0', summary: 'Models.',
    models: { 'test/ok': at('ok'), 'test/bad': at('bad') }
  }
  const bundle = createBundle({ manifests: [acme], off: [] })
  t.match(bundle.models(), [{ card: { modelId: 'test/ok' } }])
  t.equal(bundle.models().length, 1)
  t.throws(() => bundle.model('test/bad'), /model card .*bad.card\.yaml/, 'who asks for it is told why')
  t.equal(bundle.model('test/none'), undefined)
})

t.test('a card names files below its folder, and nothing else', (t) => {
  const withPath = (path: string): unknown =>
    parseCard(fine.replace('files: []', `files: [{ path: ${path}, role: x, bytes: 1 }]`), 'x')
  for (const path of ['/etc/passwd', '../x', 'a/../x', './x', 'a/./x', 'a/.', '.', 'a//x', 'a/', '']) {
    t.throws(() => withPath(`"${path}"`), /model card x: files\.0\.path/, path)
  }
  for (const path of ['model.onnx', 'a/b.onnx', '.hidden/x', 'a.b/c.d']) withPath(path)
  t.end()
})

t.test('what is wrong with a card is thrown, and written nowhere', async (t) => {
  const warned: string[] = []
  const note = ({ message }: Error): void => { warned.push(message) }
  process.on('warning', note)
  t.teardown(() => { process.off('warning', note) })
  for (const text of ['a: !<\u001b[31mx> 1', '%FOO \u001b[31m\n---\na: 1']) {
    t.throws(() => parseCard(text, 'x'), /model card x/)
  }
  await new Promise((resolve) => { setImmediate(resolve) })
  t.same(warned, [])
})
