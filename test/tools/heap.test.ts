import t from 'tap'
import { freePorts } from '../node/ports.js'
import { run, until } from '../node/kit.js'
import { hardKill } from '../node/proc.js'
import { heapOf, inspectable } from './heap.js'

t.test('the heap of another process', async (t) => {
  const [port] = await freePorts(1)
  // The process first creates only garbage; after SIGWINCH it keeps 20 MB in use.
  const code = 'const many = (n) => Array.from({ length: n }, (_, i) => ({ i })); let kept; ' +
    'for (let i = 0; i < 50; i++) kept = many(1e5); kept = []; ' +
    'process.on("SIGWINCH", () => { kept = many(5e5); console.log("kept") }); ' +
    'setInterval(() => {}, 1000); console.log("up")'
  const child = run(process.execPath, ['-e', code], { env: inspectable(port!) })
  t.teardown(() => { hardKill(child.pid) })
  await until('the process', () => child.stdout().includes('up'))
  const before = await heapOf(child.pid, port!)
  t.ok(before > 1e6 && before < 20e6, `${before} bytes: the garbage does not count`)
  child.process.kill('SIGWINCH')
  await until('more to keep', () => child.stdout().includes('kept'))
  const after = await heapOf(child.pid, port!)
  t.ok(after - before > 10e6, `${after - before} bytes more`)
})
