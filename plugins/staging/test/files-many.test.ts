import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ModelRoot } from '../files/root.js'
import { recordOf, scratch, write } from './files-kit.js'

t.test('10,000 small files are published, listed and removed', async (t) => {
  const root = new ModelRoot({ root: scratch(t), clock: manualClock() })
  await root.prepare()
  const files = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`d${i % 50}/f${i}`, String(i)]))
  write(root.incoming('acme/x'), files)
  const record = recordOf('acme/x', files)
  t.match(await root.publish('acme/x', record), { sizeBytes: 38_890, freeableBytes: 38_890 })
  t.equal((await root.list())[0]?.record?.manifest.files.length, 10_000)
  t.equal(await root.remove('acme/x'), 38_890)
})
