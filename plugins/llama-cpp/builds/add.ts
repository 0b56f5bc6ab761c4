/** Brings a build of llama.cpp into the home: whole under its name, or not at all. */
import { chmod, cp, mkdir, readdir, rename, stat, statfs, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  BUILD_FILE, buildsFolder, buildsOf, buildText, listsBackend, outputOf, readDevices
} from '../../runners/service.js'
import type { Build } from '../../runners/service.js'
import { diskError, digestOf, download } from './download.js'
import { openWorkplace } from './folder.js'
import type { AddFolder } from './folder.js'
import {
  assetsFor, backendFor, BACKENDS, BuildError, verifiedAsset, digestFor, KNOWN_TAG, readName, readRelease,
  reasonOf, refuseZip, tagFor
} from './release.js'
import type { Asset, BuildBackend, Machine, PinnedAsset, Source } from './release.js'
import { unpack } from './unpack.js'

export const ENGINE = 'llama.cpp'
const SERVER = 'llama-server'
const PROGRAMS = [SERVER, 'rpc-server', 'ggml-rpc-server']
const LIBRARY = /\.(so(\.\d+)*|dylib|metal)$/
/** What an archive takes on the disk with what comes out of it; that was seen to be 2.6 times as large. */
const GROWTH = 5

export interface AddParts extends Source {
  home: string
  machine: Machine
  nvidia: boolean
  tag?: string | undefined
  backend?: string | undefined
  /** In place of a release: a server, its folder, or archives, that with the programs first. */
  files: readonly string[]
  /** SHA-256 of the archives by hand, in their order. */
  sha256: readonly string[]
  /** For a trial of the program. */
  env: Readonly<Record<string, string | undefined>>
  now (): Date
  /** Free bytes on the disk of a folder. */
  free? (folder: string): Promise<number>
  progress (name: string, bytes: number, total: number): void
}

/** A build; `added` is false for one that was there, which is now the one in use. */
export interface Added { build: Build, added: boolean }

/** Adds a build, or chooses one that is there. @throws BuildError */
export async function addBuild (parts: AddParts): Promise<Added> {
  const { home } = parts
  for (const file of parts.files) refuseZip(basename(file))
  const server = await serverAt(parts.files[0])
  const files = server === undefined ? parts.files : [server]
  const { tag, backend } = server !== undefined ? await toldBy(server, parts)
    : files.length > 0 ? namedBy(files[0]!, parts) : wanted(parts)
  const builds = buildsFolder(home, ENGINE)
  await mkdir(builds, { recursive: true, mode: 0o700 }).catch((error: unknown) => { throw diskError(error) })
  const name = `${tag}-${backend}`
  const there = buildsOf(home, ENGINE).find((build) => build.name === name)
  if (there !== undefined) return await choose(there, { ...parts, files })
  const work = await openWorkplace(builds)
  let keep = true
  try {
    const archives = files.length > 0 ? await given(files, parts.sha256)
      : await fetched(parts, { tag, backend, work, builds })
    keep = false
    const folder = server === undefined ? await unpacked(archives.map(({ file }) => file), work, parts)
      : await copied(server, await work.folder('0'))
    const { devices } = await tried(join(folder, SERVER), parts)
    const build: Build = {
      name, folder: join(builds, name), tag, backend, usedSince: parts.now().toISOString(),
      digests: archives.map(({ digest }) => digest), devices
    }
    await writeFile(join(folder, BUILD_FILE), buildText(build), { mode: 0o600 })
    return { build, added: await placed(folder, build, home) }
  } catch (error) {
    // What fills the disk does not stay.
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException
    keep &&= code !== 'ENOSPC' && code !== 'EDQUOT'
    throw error
  } finally {
    await work.leave(keep)
  }
}

/** As the options say, else the release that is known to work and what this machine computes on. */
function wanted (
  { tag = KNOWN_TAG, backend, machine, nvidia }: AddParts
): { tag: string, backend: BuildBackend } {
  return { tag: tagFor(tag), backend: backendFor(backend, machine, nvidia) }
}

/** The build that fits best, and the bytes of its archives. @throws BuildError */
export async function planBuild (
  parts: AddParts
): Promise<{ tag: string, backend: BuildBackend, bytes: number }> {
  const { tag, backend } = wanted(parts)
  const assets = await pinnedAssets(parts, tag, backend)
  return { tag, backend, bytes: assets.reduce((sum, { size }) => sum + size, 0) }
}

async function pinnedAssets (parts: AddParts, tag: string, backend: BuildBackend): Promise<PinnedAsset[]> {
  const { machine, sha256 } = parts
  return assetsFor(await readRelease(parts, tag), tag, machine, backend)
    .map((asset, i) => verifiedAsset(asset, sha256[i]))
}

/** The server that a path is or has in it; undefined for an archive. @throws BuildError */
async function serverAt (path = ''): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory() !== true) return found === undefined || /\.t?gz$/.test(path) ? undefined : path
  const server = (await filesIn(path)).find((file) => basename(file) === SERVER)
  if (server === undefined) throw new BuildError(`${path} has no ${SERVER} in it`, { wrong: true })
  return server
}

/** Tag and backend by the options, else by the output of the server. @throws BuildError */
async function toldBy (server: string, parts: AddParts): Promise<ReturnType<typeof wanted>> {
  const { version, devices } = await tried(server, parts)
  const has = BACKENDS.findLast((backend) => listsBackend(devices, backend)) ?? 'cpu'
  const tag = `b${/^version: ([1-9]\d*)/m.exec(version)?.[1] ?? 1}`
  return wanted({ ...parts, tag: parts.tag ?? tag, backend: parts.backend ?? has })
}

/** Copies a server with what it uses of its folder, in which there may be other things. */
async function copied (server: string, folder: string): Promise<string> {
  for (const name of await readdir(dirname(server))) {
    if (!PROGRAMS.includes(name) && !LIBRARY.test(name)) continue
    await cp(join(dirname(server), name), join(folder, name), { dereference: true })
  }
  await cp(server, join(folder, SERVER), { dereference: true })
  return await runnable(folder)
}

/** Not every archive says what can be run. */
async function runnable (folder: string): Promise<string> {
  for (const name of PROGRAMS) await chmod(join(folder, name), 0o755).catch(() => {})
  await chmod(folder, 0o755)
  return folder
}

/** What the name of an archive says, or the options do. @throws BuildError */
function namedBy (file: string, parts: AddParts): ReturnType<typeof wanted> {
  const name = readName(basename(file))
  const { tag = name?.tag, backend = name?.backend } = parts
  if (tag !== undefined && backend !== undefined) return wanted({ ...parts, tag, backend })
  throw new BuildError(`${basename(file)} is not called as an archive of llama.cpp is: say what it is with ` +
    '--build TAG and --backend', { wrong: true })
}

/** Makes a build that is there the one in use. @throws BuildError where it is from other archives */
async function choose (there: Build, { files, now }: AddParts): Promise<Added> {
  if (files.length > 0) {
    const digests = await Promise.all(files.map(digestOf))
    if (digests.join() !== there.digests.join()) {
      throw new BuildError(`${there.name} is there already, from other archives: remove it first, with ` +
        `\`svc engine rm ${ENGINE} ${there.name}\``)
    }
  }
  const build = { ...there, usedSince: now().toISOString() }
  const file = join(there.folder, BUILD_FILE)
  const aside = `${file}.${process.pid}`
  await writeFile(aside, buildText(build), { mode: 0o600 }).then(async () => { await rename(aside, file) })
    .catch((error: unknown) => { throw diskError(error) })
  return { build, added: false }
}

interface Archive { file: string, digest: string }

async function given (files: readonly string[], sha256: readonly string[]): Promise<Archive[]> {
  return await Promise.all(files.map(async (file, i) => {
    const digest = await digestOf(file).catch((error: unknown) => {
      throw new BuildError(`${file} cannot be read: ${reasonOf(error)}`, { wrong: true, cause: error })
    })
    if (sha256[i] === undefined || digestFor(sha256[i]) === digest) return { file, digest }
    throw new BuildError(`${file} does not have the SHA-256 that was given; it has ${digest}`)
  }))
}

/** Downloads the archives of a release. @throws BuildError */
async function fetched (
  parts: AddParts,
  { tag, backend, work, builds }: { tag: string, backend: BuildBackend, work: AddFolder, builds: string }
): Promise<Archive[]> {
  const { signal, dispatcher, progress } = parts
  const assets = await pinnedAssets(parts, tag, backend)
  await fits(assets, builds, parts)
  const archives: Archive[] = []
  for (const asset of assets) {
    const file = await work.part(asset.digest)
    const onBytes = (bytes: number): void => { progress(asset.name, bytes, asset.size) }
    await download(asset, file, { signal, dispatcher, onBytes })
    archives.push({ file, digest: asset.digest })
  }
  return archives
}

/** @throws BuildError before a byte is fetched that has no room */
async function fits (
  assets: readonly Asset[], folder: string, { free = freeBytes }: Pick<AddParts, 'free'>
): Promise<void> {
  const needed = GROWTH * assets.reduce((sum, { size }) => sum + size, 0)
  const room = await free(folder)
  if (room >= needed) return
  throw new BuildError(`the disk of the home is too full: the build needs up to ${mib(needed)} MiB, and ` +
    `${mib(room)} MiB are free`, { cause: { code: 'ENOSPC' } })
}

const mib = (bytes: number): number => Math.ceil(bytes / 2 ** 20)

async function freeBytes (folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Unpacks the archives: the folder with the programs, what the others have beside. @throws BuildError */
async function unpacked (
  files: readonly string[], work: AddFolder, { signal }: AddParts
): Promise<string> {
  const folders: string[] = []
  for (const [i, file] of files.entries()) {
    const folder = await work.folder(String(i))
    await unpack(file, folder, signal)
    folders.push(folder)
  }
  const [main, ...others] = folders
  const server = (await filesIn(main!)).find((file) => basename(file) === SERVER)
  if (server === undefined) throw new BuildError(`the archive has no ${SERVER}: it is no build of llama.cpp`)
  const folder = dirname(server)
  for (const library of (await Promise.all(others.map(filesIn))).flat()) {
    await rename(library, join(folder, basename(library)))
  }
  return await runnable(folder)
}

async function filesIn (folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}

/** Starts the program: its version, and its devices. @throws BuildError where it does not start here */
async function tried (
  server: string, { env, signal }: AddParts
): Promise<{ version: string, devices: string[] }> {
  const run = async (flag: string): Promise<string> => await outputOf(server, flag, env, signal)
  const version = await run('--version').catch((error: unknown) => {
    if (signal.aborted) throw error
    const said = `${(error as { stderr?: string }).stderr ?? ''} ${(error as Error).message}`
    const short = said.replace(/\s+/g, ' ').trim().slice(0, 300)
    throw new BuildError(`this build does not start on this machine: ${short}`)
  })
  // Old builds do not know it.
  const devices = await run('--list-devices').catch(() => '')
  return { version, devices: readDevices(devices) ?? [] }
}

/** Gives a build its name at once; false where another add was earlier. @throws BuildError */
async function placed (folder: string, build: Build, home: string): Promise<boolean> {
  try {
    await rename(folder, build.folder)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw diskError(error)
    if (buildsOf(home, ENGINE).some(({ name }) => name === build.name)) return false
    throw new BuildError(`${build.folder} is there and is no build: remove it, and try again`)
  }
}

/** Removes a build, at once as others see it. */
export async function removeBuild ({ folder, name }: Build): Promise<void> {
  const work = await openWorkplace(dirname(folder))
  try {
    await rename(folder, join(await work.folder(name), 'old'))
  } finally {
    await work.leave(false)
  }
}
