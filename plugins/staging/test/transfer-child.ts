import { readFileSync } from 'node:fs'
import { fetchInto, httpSource } from './transfer-kit.js'
import type { ModelManifest } from '../types.js'

/** Child process that is killed while it fetches a model. Arguments: manifest file, folder, URL. */
const [, , manifest, folder, url] = process.argv as [string, string, string, string, string]
await fetchInto(folder, JSON.parse(readFileSync(manifest, 'utf8')) as ModelManifest, [httpSource(url)])
