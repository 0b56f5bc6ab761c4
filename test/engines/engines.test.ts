/** The real MLX, and with SVC_TEST_NIGHTLY=1 the real vLLM, on a CPU: `npm run test:engines`. */
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../node/http.js'
import { startNode, svc, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'
import { mlx, PLANETS, vllm, weights, without } from './kit.js'

const skip = without()
const engines = { mlx, ...process.env['SVC_TEST_NIGHTLY'] === undefined ? {} : { vllm } }

for (const [name, install] of Object.entries(engines)) {
  t.test(`${name} serves SmolLM2`, { skip, timeout: 1_500_000 }, async (t) => {
    const python = join(mlx(), 'bin')
    const node = await startNode(t, {
      config: {
        cluster: { discovery: false },
        plugins: {
          'placement': { autoplace: [] },
          'openai-programs': { engines: { [name]: { environment_path: install() } } }
        },
        model_store: { hub: { enabled: false } }
      }
    })
    const run = async (...args: string[]) => await svc(args, { env: { SVC_HOME: node.home } })
    t.match(await run('engine', 'ls'), { stdout: RegExp(`${name} 0\\.32\\.\\S+ +\\S+ +yes`) })
    t.match(await run('pull', weights(python), '--as', 'test/smol'), { status: 0 })
    t.match(await run('place', 'test/smol', '--ctx', '2048', '--wait=1200'), { status: 0 })
    const chat = async (more: object) => await ask(node, '/v1/chat/completions',
      { body: { model: 'test/smol', messages: [{ role: 'user', content: PLANETS }], temperature: 0,
        ...more } })
    t.match((await chat({ max_tokens: 20 })).text, /Mercury, Venus/)
    const stopped = JSON.parse((await chat({ max_tokens: 40, stop: ['Venus'] })).text) as
      { choices: [{ message: { content: string } }] }
    t.match(stopped.choices[0].message.content, /Mercury, $/)
    t.match(await chat({ messages: [{ role: 'user', content: 'word '.repeat(3000) }] }),
      { status: 400, text: /context_length_exceeded/ })
    const form = { max_tokens: 60, response_format: { type: 'json_object' } }
    t.match(await chat(form), { status: name === 'mlx' ? 400 : 200 })
    const programs = (): number[] =>
      descendants(node.pid).filter((pid) => /mlx_lm|vllm serve/.test(cmdline(pid)))
    const [first] = programs()
    process.kill(first!, 'SIGKILL')
    await until('another one serves', async () =>
      programs().length > 0 && programs()[0] !== first && (await chat({ max_tokens: 1 })).status === 200,
    { seconds: 600 })
  })
}
