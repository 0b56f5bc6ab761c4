import type { ToolFormat } from './format.js'
import { listBetween } from './json-calls.js'

/** `<TOOLCALL>[{"name": …, "arguments": …}, …]</TOOLCALL>`: Nemotron Nano. */
export const nemotron: ToolFormat = listBetween('<TOOLCALL>', '</TOOLCALL>')
