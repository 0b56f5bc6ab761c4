/** An npm registry on loopback: one document per package, and the package tarballs. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import semver from 'semver'
import { create } from 'tar'
import { folder } from './kit.js'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

interface PackageJson {
  name: string
  version: string
  scripts?: Record<string, string>
  [more: string]: unknown
}

interface Published { manifest: object, tarball: Buffer, tag: string }

export interface Registry {
  url: string
  /** Environment that points npm to this registry, with a separate cache and without user settings. */
  env: Record<string, string>
  /** Publishes files as a package; `json` becomes package.json. Returns the tarball's integrity hash. */
  publish (json: PackageJson, files?: Record<string, string>, tag?: string): Promise<string>
  /** Publishes a tarball made by `npm pack`. */
  publishTarball (json: PackageJson, tarball: Buffer): string
  /** From now on the tarballs of a package do not match its document. */
  tamper (name: string): void
  /** Pauses downloads of tarballs in the middle until `letGo`; `held` counts the paused ones. */
  hold (): { held: () => number, letGo: () => void }
  /** Paths of all requests so far. */
  asked: string[]
  close (): Promise<void>
}

/** The fields of the public registry's document that npm reads (application/vnd.npm.install-v1+json). */
function documentOf (name: string, versions: ReadonlyMap<string, Published>): object {
  const tags = new Map<string, string>()
  for (const [version, { tag }] of versions) {
    const now = tags.get(tag)
    if (now === undefined || semver.gt(version, now)) tags.set(tag, version)
  }
  return {
    name, modified: '2026-01-01T00:00:00.000Z', 'dist-tags': Object.fromEntries(tags),
    versions: Object.fromEntries([...versions].map(([version, { manifest }]) => [version, manifest]))
  }
}

async function packed (files: Record<string, string>, work: string): Promise<Buffer> {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(work, 'package', dirname(path)), { recursive: true })
    writeFileSync(join(work, 'package', path), text)
  }
  const file = join(work, 'packed.tgz')
  await create({ gzip: true, file, cwd: work, portable: true }, ['package'])
  return readFileSync(file)
}

export async function startRegistry (t: Test): Promise<Registry> {
  const packages = new Map<string, Map<string, Published>>()
  const asked: string[] = []
  const tampered = new Set<string>()
  let waiting: ServerResponse[] | null = null
  const letGo = (): void => {
    for (const response of waiting ?? []) response.destroy()
    waiting = null
  }
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split('?')[0]!.slice(1))
    asked.push(path)
    const [name = '', file] = path.split('/-/')
    const versions = packages.get(name)
    const found = file === undefined ? undefined
      : [...versions ?? []].find(([version]) => file.endsWith(`-${version}.tgz`))?.[1].tarball
    if (found !== undefined) {
      const bytes = tampered.has(name) ? Buffer.concat([found, Buffer.from('more')]) : found
      response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': bytes.length })
      if (waiting === null) return response.end(bytes)
      response.write(bytes.subarray(0, bytes.length / 2))
      return waiting.push(response)
    }
    const body = versions !== undefined && file === undefined
      ? documentOf(name, versions)
      : { error: 'Not found' }
    response.writeHead(versions === undefined ? 404 : 200, { 'content-type': 'application/json' })
    return response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const close = async (): Promise<void> => {
    letGo()
    server.closeAllConnections()
    await new Promise<void>((resolve) => { server.close(() => { resolve() }) })
  }
  t.teardown(close)
  const publishTarball = (json: PackageJson, tarball: Buffer, tag = 'latest'): string => {
    const { name, version, scripts = {} } = json
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
    const dist = {
      integrity, shasum: createHash('sha1').update(tarball).digest('hex'),
      tarball: `${url}${name}/-/${name.split('/').at(-1)!}-${version}.tgz`, fileCount: 2,
      unpackedSize: tarball.length
    }
    const runs = ['preinstall', 'install', 'postinstall'].some((one) => one in scripts)
    const versions = packages.get(name) ?? new Map<string, Published>()
    packages.set(name, versions.set(version,
      { manifest: { ...json, ...runs ? { hasInstallScript: true } : {}, dist }, tarball, tag }))
    return integrity
  }
  const cache = folder(t)
  return {
    url, asked, close, publishTarball,
    env: {
      npm_config_registry: url, npm_config_cache: cache, npm_config_userconfig: join(cache, 'none'),
      npm_config_globalconfig: join(cache, 'nor-this')
    },
    async publish (json, files = {}, tag = 'latest') {
      const whole = { 'package.json': JSON.stringify(json), ...files }
      return publishTarball(json, await packed(whole, folder(t)), tag)
    },
    tamper (name) { tampered.add(name) },
    hold () {
      const held: ServerResponse[] = []
      waiting = held
      return { held: () => held.length, letGo }
    }
  }
}
