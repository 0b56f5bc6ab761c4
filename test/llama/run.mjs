// Runs the tests of this folder with the llama.cpp that build.mjs builds:
// npm run test:llama [-- FILE ... | --record]
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BuildError, buildLlama } from './build.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
try {
  const bin = buildLlama()
  console.log(`llama.cpp is in ${bin}`)
  const env = {
    ...process.env, SVC_TEST_LLAMA: bin, SVC_LLAMA_SERVER_BIN: join(bin, 'llama-server'),
    // Without a backtrace, as in runners, the last line before llama.cpp aborts gives the cause.
    GGML_NO_BACKTRACE: '1'
  }
  const options = ['--enable-source-maps', `--import=${join(here, '../tools/typescript.mjs')}`]
  const [first] = process.argv.slice(2)
  if (first === '--record') {
    const script = [...options, join(here, 'record.ts')]
    process.exit(spawnSync(process.execPath, script, { stdio: 'inherit', env }).status)
  }
  const files = process.argv.length > 2 ? process.argv.slice(2) : [here]
  const all = [join(here, '../run.mjs'), '--jobs', '1', '--timeout', '3600', ...files]
  const { status } = spawnSync(process.execPath, all, { stdio: 'inherit', env })
  process.exitCode = status ?? 1
} catch (error) {
  if (!(error instanceof BuildError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
