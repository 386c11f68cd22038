/* SPDX-License-Identifier: Apache-2.0 */
/* _native.c -- the module kvrail._native: its types and functions, and how errors become exceptions.
 *
 * The module keeps its state in static variables, so it works in the main interpreter only, and refuses others.
 * Builds of Python without a GIL cannot load it, because they lack the stable ABI. */
#include "_native.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyTypeObject *region_type;

PyObject *kvrail_raise(int code, const char *format, ...)
{
	char text[1024];
	PyObject *errors, *error;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	errors = PyImport_ImportModule("kvrail._errors");
	if (!errors)
		return NULL;
	error = PyObject_CallMethod(errors, "make", "iN", code,
				    PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"));
	Py_DECREF(errors);
	if (error) {
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
	}
	return NULL;
}

PyObject *kvrail_type_name(PyObject *object)
{
	return PyType_GetName(Py_TYPE(object));
}

int kvrail_uint(PyObject *object, const char *what, uint64_t *out)
{
	return kvrail_uint_in(object, what, "from 0 to 2^64 - 1", out);
}

int kvrail_uint_in(PyObject *object, const char *what, const char *range, uint64_t *out)
{
	PyObject *index;
	if (!PyIndex_Check(object)) {
		PyObject *type = kvrail_type_name(object);
		if (type)
			PyErr_Format(PyExc_TypeError, "%s must be an int, not %U", what, type);
		Py_XDECREF(type);
		return -1;
	}
	index = PyNumber_Index(object);
	if (!index)
		return -1;
	*out = PyLong_AsUnsignedLongLong(index);
	Py_DECREF(index);
	if (*out != UINT64_MAX || !PyErr_Occurred())
		return 0;
	if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
		PyErr_Clear();
		PyErr_Format(PyExc_ValueError, "%s must be %s, not %S", what, range, object);
	}
	return -1;
}

/* key_fold(key) -- a key as the servers know it: itself up to 128 bytes, else its beginning and a digest. */
static PyObject *module_key_fold(PyObject *module, PyObject *object)
{
	unsigned char room[KVC_KEY_MAX];
	const char *data;
	struct kvc_key key;
	Py_ssize_t len;
	int rc;
	(void)module;
	if (PyUnicode_Check(object)) {
		data = PyUnicode_AsUTF8AndSize(object, &len);
		if (!data)
			return NULL;
	} else if (!PyBytes_Check(object)) {
		PyErr_SetString(PyExc_TypeError, "a key is str or bytes");
		return NULL;
	} else if (PyBytes_AsStringAndSize(object, (char **)&data, &len) < 0) {
		return NULL;
	}
	if (len == 0) {
		PyErr_SetString(PyExc_ValueError, "a key has at least one byte");
		return NULL;
	}
	rc = kvc_key_fold(data, (size_t)len, room, &key);
	return rc < 0 ? kvrail_raise(rc, "%s", kvc_strerror(rc))
		      : PyBytes_FromStringAndSize(key.data, (Py_ssize_t)key.len);
}

static PyObject *code_text(PyObject *object, const char *(*text)(int code))
{
	long code = PyLong_AsLong(object);
	if (code == -1 && PyErr_Occurred())
		return NULL;
	return PyUnicode_FromString(text((int)code));
}

static PyObject *module_errname(PyObject *module, PyObject *code)
{
	(void)module;
	return code_text(code, kvc_errname);
}

static PyObject *module_strerror(PyObject *module, PyObject *code)
{
	(void)module;
	return code_text(code, kvc_strerror);
}

static PyObject *module_program_setup(PyObject *module, PyObject *unused)
{
	(void)module, (void)unused;
	kvc_program_setup();
	Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
	{"key_fold", module_key_fold, METH_O, "key_fold(key) -> bytes: a key of any length as the servers know it."},
	{"errname", module_errname, METH_O, "errname(code) -> str: the name of a code, as 'KV_ETIMEOUT'."},
	{"strerror", module_strerror, METH_O, "strerror(code) -> str: a code as part of a sentence."},
	{"program_setup", module_program_setup, METH_NOARGS,
	 "program_setup(): set libfabric's environment variables to KVRail's "
	 "defaults where they are not set. For programs, before their first client."},
	{"close_all", client_close_all, METH_NOARGS, "close_all(): close every client that is open."},
	{NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
	PyObject *client = NULL, *region = NULL, *view = NULL;
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
		PyErr_SetString(PyExc_ImportError,
				"kvrail works in the main interpreter only, not in a sub-interpreter: use processes");
		return -1;
	}
	client = PyType_FromModuleAndSpec(module, &client_spec, NULL);
	region = PyType_FromModuleAndSpec(module, &region_spec, NULL);
	view = PyType_FromModuleAndSpec(module, &view_spec, NULL);
	if (!client || !region || !view || PyModule_AddObjectRef(module, "Client", client) < 0 ||
	    PyModule_AddObjectRef(module, "Region", region) < 0 || PyModule_AddObjectRef(module, "View", view) < 0 ||
	    PyModule_AddStringConstant(module, "version", kvc_version()) < 0) {
		Py_XDECREF(client);
		Py_XDECREF(region);
		Py_XDECREF(view);
		return -1;
	}
	Py_DECREF(client);
	region_type = (PyTypeObject *)region; /* the references are kept */
	view_type = (PyTypeObject *)view;
	return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)module_exec}, {0, NULL}};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT, .m_name = "kvrail._native", .m_doc = "The client library as a Python module.",
	.m_size = 0,           .m_methods = functions,     .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void); /* Python.h declares none */

PyMODINIT_FUNC PyInit__native(void)
{
	return PyModuleDef_Init(&definition);
}
