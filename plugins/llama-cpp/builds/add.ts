/** Atomically installs a build of llama.cpp in the home. */
import { chmod, cp, mkdir, readdir, rename, stat, statfs, writeFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  BUILD_FILE, buildsFolder, buildsOf, buildText, listsBackend, outputOf, readDevices, type Build
} from '../../runners/service.js'
import {
  diskError, digestOf, download, assetsFor, backendFor, BACKENDS, BuildError, verifiedAsset, digestFor,
  KNOWN_TAG, readName, readRelease, reasonOf, refuseZip, tagFor, type Asset, type BuildBackend, type Machine,
  type PinnedAsset, type Source
} from './release.js'
import { unpack } from './unpack.js'
import { randomBytes } from 'node:crypto'

export const ENGINE = 'llama.cpp'
const SERVER = 'llama-server'
const PROGRAMS = [SERVER, 'rpc-server', 'ggml-rpc-server']
const LIBRARY = /\.(so(\.\d+)*|dylib|metal)$/
/** Disk space required, in archive sizes; an archive and its contents took 2.6 times its size. */
const GROWTH = 5

export interface AddParts extends Source {
  home: string, machine: Machine, nvidia: boolean, tag?: string | undefined
  backend?: string | undefined
  /** Local files to install instead of a release: a server, its folder, or archives (programs first). */
  files: readonly string[]
  /** SHA-256 of the archives in `files`, in the same order. */
  sha256: readonly string[]
  /** Environment in which the new server is tried. */
  env: Readonly<Record<string, string | undefined>>
  now (): Date
  free? (folder: string): Promise<number>
  progress (name: string, bytes: number, total: number): void
}

/** `added` is false if the build was already installed and is now only selected. */
export interface Added { build: Build, added: boolean }

/** Installs a build, or selects an installed one. @throws BuildError */
export async function addBuild (parts: AddParts): Promise<Added> {
  const { home } = parts
  for (const file of parts.files) refuseZip(basename(file))
  const server = await serverAt(parts.files[0])
  const files = server === undefined ? parts.files : [server]
  const { tag, backend } = server !== undefined ? await readFromServer(server, parts)
    : files.length > 0 ? readFromName(files[0]!, parts) : wanted(parts)
  const builds = buildsFolder(home, ENGINE)
  await mkdir(builds, { recursive: true, mode: 0o700 }).catch((error: unknown) => { throw diskError(error) })
  const name = `${tag}-${backend}`
  const installed = buildsOf(home, ENGINE).find((build) => build.name === name)
  if (installed !== undefined) return await selectBuild(installed, { ...parts, files })
  const work = await openWorkplace(builds)
  let keep = true
  try {
    const archives = files.length > 0 ? await readArchives(files, parts.sha256)
      : await downloadArchives(parts, { tag, backend, work, builds })
    keep = false
    const folder = server === undefined ? await unpackAll(archives.map(({ file }) => file), work, parts)
      : await copyServer(server, await work.folder('0'))
    const { devices } = await probeServer(join(folder, SERVER), parts)
    const build: Build = {
      name, folder: join(builds, name), tag, backend, usedSince: parts.now().toISOString(),
      digests: archives.map(({ digest }) => digest), devices
    }
    await writeFile(join(folder, BUILD_FILE), buildText(build), { mode: 0o600 })
    return { build, added: await moveIntoPlace(folder, build, home) }
  } catch (error) {
    // Do not leave partial archives on a full disk.
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException
    keep &&= code !== 'ENOSPC' && code !== 'EDQUOT'
    throw error
  } finally { await work.leave(keep) }
}

/** Tag and backend from the options, else the pinned release and this machine's usual backend. */
function wanted (
  { tag = KNOWN_TAG, backend, machine, nvidia }: AddParts
): { tag: string, backend: BuildBackend } {
  return { tag: tagFor(tag), backend: backendFor(backend, machine, nvidia) }
}

/** The best build for this machine, and the size of its archives in bytes. @throws BuildError */
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

/** The server at a path, or in the folder at that path; undefined for an archive. @throws BuildError */
async function serverAt (path = ''): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isDirectory() !== true) return found === undefined || /\.t?gz$/.test(path) ? undefined : path
  const server = (await filesIn(path)).find((file) => basename(file) === SERVER)
  if (server === undefined) throw new BuildError(`${path} contains no ${SERVER}`, { wrong: true })
  return server
}

/** Tag and backend from the options, else from the server's output. @throws BuildError */
async function readFromServer (server: string, parts: AddParts): Promise<ReturnType<typeof wanted>> {
  const { version, devices } = await probeServer(server, parts)
  const has = BACKENDS.findLast((backend) => listsBackend(devices, backend)) ?? 'cpu'
  const tag = `b${/^version: ([1-9]\d*)/m.exec(version)?.[1] ?? 1}`
  return wanted({ ...parts, tag: parts.tag ?? tag, backend: parts.backend ?? has })
}

/** Copies a server with llama.cpp's other programs and libraries, but no other files from its folder. */
async function copyServer (server: string, folder: string): Promise<string> {
  for (const name of await readdir(dirname(server))) {
    if (!PROGRAMS.includes(name) && !LIBRARY.test(name)) continue
    await cp(join(dirname(server), name), join(folder, name), { dereference: true })
  }
  await cp(server, join(folder, SERVER), { dereference: true })
  return await makeExecutable(folder)
}

/** Sets the executable bits, which some archives lack; returns the folder. */
async function makeExecutable (folder: string): Promise<string> {
  for (const name of PROGRAMS) await chmod(join(folder, name), 0o755).catch(() => {})
  await chmod(folder, 0o755)
  return folder
}

/** Tag and backend from the options, else from the archive's name. @throws BuildError */
function readFromName (file: string, parts: AddParts): ReturnType<typeof wanted> {
  const name = readName(basename(file))
  const { tag = name?.tag, backend = name?.backend } = parts
  if (tag !== undefined && backend !== undefined) return wanted({ ...parts, tag, backend })
  throw new BuildError(`${basename(file)} is not the name of a llama.cpp archive: specify ` +
    '--build TAG and --backend', { wrong: true })
}

/** Selects an installed build. @throws BuildError if it was installed from other archives */
async function selectBuild (installed: Build, { files, now }: AddParts): Promise<Added> {
  if (files.length > 0) {
    const digests = await Promise.all(files.map(digestOf))
    if (digests.join() !== installed.digests.join()) {
      throw new BuildError(`${installed.name} is already installed, from other archives: remove it first ` +
        `with \`svc engine rm ${ENGINE} ${installed.name}\``)
    }
  }
  const build = { ...installed, usedSince: now().toISOString() }
  const file = join(installed.folder, BUILD_FILE)
  const aside = `${file}.${process.pid}`
  await writeFile(aside, buildText(build), { mode: 0o600 }).then(async () => { await rename(aside, file) })
    .catch((error: unknown) => { throw diskError(error) })
  return { build, added: false }
}

interface Archive { file: string, digest: string }

async function readArchives (files: readonly string[], sha256: readonly string[]): Promise<Archive[]> {
  return await Promise.all(files.map(async (file, i) => {
    const digest = await digestOf(file).catch((error: unknown) => {
      throw new BuildError(`${file} cannot be read: ${reasonOf(error)}`, { wrong: true, cause: error })
    })
    if (sha256[i] === undefined || digestFor(sha256[i]) === digest) return { file, digest }
    throw new BuildError(`${file} does not have the given SHA-256, but ${digest}`)
  }))
}

async function downloadArchives (
  parts: AddParts,
  { tag, backend, work, builds }: { tag: string, backend: BuildBackend, work: AddFolder, builds: string }
): Promise<Archive[]> {
  const { signal, dispatcher, progress } = parts
  const assets = await pinnedAssets(parts, tag, backend)
  await checkDiskSpace(assets, builds, parts)
  const archives: Archive[] = []
  for (const asset of assets) {
    const file = await work.part(asset.digest)
    const onBytes = (bytes: number): void => { progress(asset.name, bytes, asset.size) }
    await download(asset, file, { signal, dispatcher, onBytes })
    archives.push({ file, digest: asset.digest })
  }
  return archives
}

/** @throws BuildError before the download if there is not enough disk space */
async function checkDiskSpace (
  assets: readonly Asset[], folder: string, { free = freeBytes }: Pick<AddParts, 'free'>
): Promise<void> {
  const needed = GROWTH * assets.reduce((sum, { size }) => sum + size, 0)
  const available = await free(folder)
  if (available >= needed) return
  throw new BuildError(`not enough disk space in the home: the build needs up to ${mib(needed)} MiB, and ` +
    `${mib(available)} MiB are free`, { cause: { code: 'ENOSPC' } })
}

const mib = (bytes: number): number => Math.ceil(bytes / 2 ** 20)

async function freeBytes (folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

/** Unpacks the archives into one folder, so that the libraries are beside the programs. @throws BuildError */
async function unpackAll (files: readonly string[], work: AddFolder, { signal }: AddParts): Promise<string> {
  const folders: string[] = []
  for (const [i, file] of files.entries()) {
    const folder = await work.folder(String(i))
    await unpack(file, folder, signal)
    folders.push(folder)
  }
  const [main, ...others] = folders
  const server = (await filesIn(main!)).find((file) => basename(file) === SERVER)
  if (server === undefined) throw new BuildError(`no build of llama.cpp: the archive contains no ${SERVER}`)
  const folder = dirname(server)
  for (const library of (await Promise.all(others.map(filesIn))).flat()) {
    await rename(library, join(folder, basename(library)))
  }
  return await makeExecutable(folder)
}

async function filesIn (folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}

/** Runs the server to read its version and devices. @throws BuildError if it does not start */
async function probeServer (
  server: string, { env, signal }: AddParts
): Promise<{ version: string, devices: string[] }> {
  const run = async (flag: string): Promise<string> => await outputOf(server, flag, env, signal)
  const version = await run('--version').catch((error: unknown) => {
    if (signal.aborted) throw error
    const said = `${(error as { stderr?: string }).stderr ?? ''} ${(error as Error).message}`
    const short = said.replace(/\s+/g, ' ').trim().slice(0, 300)
    throw new BuildError(`this build does not start on this machine: ${short}`)
  })
  // Old builds do not have --list-devices.
  const devices = await run('--list-devices').catch(() => '')
  return { version, devices: readDevices(devices) ?? [] }
}

/** Renames the folder to the build's name; false if another process installed it first. @throws BuildError */
async function moveIntoPlace (folder: string, build: Build, home: string): Promise<boolean> {
  try {
    await rename(folder, build.folder)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw diskError(error)
    if (buildsOf(home, ENGINE).some(({ name }) => name === build.name)) return false
    throw new BuildError(`${build.folder} exists but is not a build: remove it and retry`)
  }
}

/** Removes a build; renames it first, so that no process sees a partly deleted build. */
export async function removeBuild ({ folder, name }: Build): Promise<void> {
  const work = await openWorkplace(dirname(folder))
  try { await rename(folder, join(await work.folder(name), 'old')) } finally { await work.leave(false) }
}

/** Folder for temporary files; its name is not a valid build name. */
const WORK_FOLDER = '.coming'

/** The temporary files of one installation; their names are unique. */
interface AddFolder {
  /** The path for an archive; an earlier installation may have left the file's first bytes there. */
  part (digest: string): Promise<string>
  folder (name: string): Promise<string>
  /** Removes the temporary files; `keep` leaves partial archives for the next installation. */
  leave (keep: boolean): Promise<void>
}

const named = /^(\d+|left)\.[0-9a-f]+(?:-([0-9a-f]{64})\.part|-unpacked)$/

/** Creates a folder for temporary files; removes those of exited processes, except partial archives. */
async function openWorkplace (builds: string): Promise<AddFolder> {
  const all = join(builds, WORK_FOLDER)
  await mkdir(all, { recursive: true, mode: 0o700 })
  const id = randomBytes(6).toString('hex')
  const mine = `${process.pid}.${id}`
  for (const { name, digest } of await leftoversIn(all)) {
    if (digest === undefined) await rm(join(all, name), { recursive: true, force: true })
  }
  const parts = new Map<string, string>()
  return {
    async part (digest) {
      const hex = digest.replace('sha256:', '')
      const path = join(all, `${mine}-${hex}.part`)
      parts.set(path, join(all, `left.${id}-${hex}.part`))
      for (const { name, digest: has } of await leftoversIn(all)) {
        // The rename gives a partial archive to only one of several processes; the others start from zero.
        if (has === hex && await rename(join(all, name), path).then(() => true, () => false)) break
      }
      return path
    },
    async folder (name) {
      const path = join(all, `${mine}-unpacked`, name)
      await mkdir(path, { recursive: true, mode: 0o700 })
      return path
    },
    async leave (keep) {
      await rm(join(all, `${mine}-unpacked`), { recursive: true, force: true })
      for (const [path, left] of parts) {
        if (keep) await rename(path, left).catch(() => {})
        else await rm(path, { force: true })
      }
    }
  }
}

/** Temporary files whose process has ended. */
async function leftoversIn (folder: string): Promise<{ name: string, digest: string | undefined }[]> {
  return (await readdir(folder).catch(() => [])).flatMap((name) => {
    const [, owner, digest] = named.exec(name) ?? []
    return owner === undefined || (owner !== 'left' && alive(Number(owner))) ? [] : [{ name, digest }]
  })
}

function alive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) { return (error as NodeJS.ErrnoException).code !== 'ESRCH' }
}
