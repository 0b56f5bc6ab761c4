// Writes all sheets and the frames as JSON for the training:
// node --import ./test/tools/typescript.mjs export-sheets.mjs OUT.json
import { readFileSync, writeFileSync } from 'node:fs'
import { parse } from 'yaml'
import { patternsIn } from '../../../plugins/chat/guide/entries.ts'
import { sheets } from './declarations.mjs'

const raw = parse(readFileSync(new URL('frames.yaml', import.meta.url), 'utf8'))
const frames = Object.fromEntries(Object.entries(raw).map(([key, text]) => [key, patternsIn(text)]))
writeFileSync(process.argv[2], JSON.stringify({ sheets, frames }))
process.stdout.write(`${sheets.length} sheets\n`)
