// Builds the program `ollama` from its Go module into $XDG_CACHE_HOME/svc-test, once:
// node test/real/python-clients/ollama.mjs
// 3 to 30 minutes, 0.9 GB for Go's caches. Go's modules have no folders named vendor, so the headers that
// ollama's copy of llama.cpp has there come from the source of the build in test/llama.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BuildError, llamaSource } from '../../llama/build.mjs'

export const VERSION = '0.17.4'
const MODULE = 'github.com/ollama/ollama'

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test')

/** The program `ollama`, built if necessary, or why it is missing. */
export function ollama () {
  const folder = join(cache, `ollama-${VERSION}`)
  const program = join(folder, 'ollama')
  if (existsSync(program)) return { program }
  if (spawnSync('go', ['version']).status !== 0) return { missing: 'needs Go (Debian: apt install golang)' }
  let headers
  try {
    headers = join(llamaSource(), 'vendor')
  } catch (error) {
    if (error instanceof BuildError) return { missing: error.message }
    throw error
  }
  const part = `${folder}.part`
  mkdirSync(part, { recursive: true })
  const flags = `-O0 -I${headers}`
  const env = { ...process.env, GOBIN: part, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local', CGO_ENABLED: '1',
    CGO_CFLAGS: flags, CGO_CXXFLAGS: flags }
  const words = ['go', 'install', '-ldflags', `-s -w -X=${MODULE}/version.Version=${VERSION}`,
    `${MODULE}@v${VERSION}`]
  const { status, stderr } = spawnSync('nice', words, { env, encoding: 'utf8', maxBuffer: 2 ** 26 })
  if (status !== 0) return { missing: `go install failed: ${stderr.trim().slice(-400)}` }
  renameSync(part, folder)
  return { program }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { program, missing } = ollama()
  console.log(program ?? missing)
  process.exitCode = program === undefined ? 1 : 0
}
