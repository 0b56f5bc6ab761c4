import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createBundle } from '../cards/bundle.js'
import type { Manifest } from '../api/plugin.js'

const fine = readFileSync(new URL('../../test/node/fixtures/models/ok/card.yaml', import.meta.url), 'utf8')

t.test('one card that cannot be read takes no other model along', async (t) => {
  const folder = t.testdir({ ok: { 'card.yaml': fine }, bad: { 'card.yaml': 'modelId: [' } })
  const at = (name: string): { folder: string } =>
    ({ folder: pathToFileURL(`${join(folder, name)}/`).href })
  const bundle = createBundle(() => [{
    name: 'acme', version: '1.0.0', kernel: '^1.0.0', summary: 'Models.',
    models: { 'test/ok': at('ok'), 'test/bad': at('bad') }
  } satisfies Manifest])
  t.match(bundle.models(), [{ card: { modelId: 'test/ok' } }])
  t.equal(bundle.models().length, 1)
  t.throws(() => bundle.model('test/bad'), /model card .*bad.card\.yaml/, 'who asks for it is told why')
  t.equal(bundle.model('test/none'), undefined)
})
