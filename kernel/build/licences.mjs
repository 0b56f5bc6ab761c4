import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** Licence and notice texts of every package that one of the files belongs to. */
export function licences (from, files) {
  const found = files.map((path) => /^(?:\w+:)?(.*node_modules\/(?:@[^/]+\/)?[^/]+)/.exec(path)?.[1])
  const packages = new Map(found.filter((path) => path !== undefined).map((path) => {
    const folder = resolve(from, path)
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const texts = readdirSync(folder).filter((file) => /^(licen[cs]e|copying|notice)/i.test(file)).sort()
      .map((file) => readFileSync(join(folder, file), 'utf8').trim())
    return [`${name} ${version}`, [`${name} ${version}, ${license}`, ...texts].join('\n\n')]
  }))
  return [...packages].sort(([a], [b]) => a < b ? -1 : 1).map(([, text]) => `${text}\n`)
    .join(`\n${'-'.repeat(78)}\n\n`)
}
