// The product's declarations for the scripts in this folder; run those from the root with `node --import
// ./test/tools/typescript.mjs`.
import { declaredBy } from '../../../kernel/cli/declared.ts'
import { bundled } from '../../../plugins/index.ts'
import { allSheets, writtenSheets } from '../../../plugins/chat/guide/entries.ts'
import { declaredSheets } from '../../../plugins/chat/guide/declared.ts'

export const declarations = declaredBy(bundled.map(({ manifest }) => manifest))

export const sheets = allSheets(writtenSheets(), declaredSheets(declarations))
