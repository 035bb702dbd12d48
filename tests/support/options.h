/* A small kind of things with options of every type, for tests of tables. */
#ifndef LK_TEST_OPTIONS_H
#define LK_TEST_OPTIONS_H

#include <lockstep/option.h>

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cake_options {
    bool iced;
    int64_t layers;
    double sugar, heat;
    const char *note;
    lk_option_ints tiers;
    lk_option_reals weights;
    lk_option_names fruits;
    int form;
    lk_config filling;
    lk_configs parts;
    int64_t shelf;
} cake_options;

typedef struct cream_options {
    double fat;
    lk_config inside;
} cream_options;

typedef struct pie_options {
    int64_t pieces;
} pie_options;

static const lk_descriptor *test_dish_at(int i);
static const lk_registry test_kind_dish = {"dish", "dishes", "things to eat", true, test_dish_at};

#define CAKE(member) offsetof(cake_options, member)
static const lk_option cake_table[] = {
    {"iced", LK_OPTION_FLAG, CAKE(iced), .help = "whether there is ice on it"},
    {"layers", LK_OPTION_INT, CAKE(layers), .def = "2", .min = 1, .max = 9, .help = "how many"},
    {"sugar", LK_OPTION_REAL, CAKE(sugar), .def = "0.25", .min = 0, .max = 1,
     .help = "share of sugar", .flags = LK_OPTION_OPEN_MIN},
    {"heat", LK_OPTION_REAL, CAKE(heat), .def = "180", .min = 0, .max = HUGE_VAL,
     .help = "of the oven"},
    {"note", LK_OPTION_TEXT, CAKE(note), .help = "what is written on it"},
    {"tiers", LK_OPTION_INTS, CAKE(tiers), .def = "3,2", .min = 1, .max = 100,
     .help = "width of each", .flags = LK_OPTION_ONCE},
    {"weights", LK_OPTION_REALS, CAKE(weights), .help = "of the tiers"},
    {"fruits", LK_OPTION_NAMES, CAKE(fruits), .help = "fruits in it"},
    {"form", LK_OPTION_CHOICE, CAKE(form), .def = "round", .choices = "square round heart",
     .help = "its form"},
    {"filling", LK_OPTION_CONFIG, CAKE(filling), .def = "cream", .registry = &test_kind_dish,
     .help = "what is in it"},
    {"parts", LK_OPTION_CONFIGS, CAKE(parts), .registry = &test_kind_dish, .help = "what is on it"},
    {"shelf_life", LK_OPTION_INT, CAKE(shelf), .def = "3", .help = "days",
     .flags = LK_OPTION_NO_HASH},
    {0}};

static const lk_option cream_table[] = {
    {"fat", LK_OPTION_REAL, offsetof(cream_options, fat), .def = "0.3", .help = "share of fat"},
    {"inside", LK_OPTION_CONFIG, offsetof(cream_options, inside), .registry = &test_kind_dish,
     .help = "what it hides"},
    {0}};

static const lk_option pie_table[] = {{"pieces", LK_OPTION_INT, offsetof(pie_options, pieces),
                                       .min = 1, .max = 64, .help = "into how many it is cut",
                                       .flags = LK_OPTION_REQUIRED},
                                      {0}};

static const lk_descriptor test_dishes[] = {
    {"bread", "flour and water", NULL, NULL, 0},
    {"cake", "flour, sugar and more", NULL, cake_table, sizeof(cake_options)},
    {"cream", "milk without milk", NULL, cream_table, sizeof(cream_options)},
    {"pie", "a cake for mathematicians", "It has no end.", pie_table, sizeof(pie_options)},
};

static const lk_descriptor *test_dish_at(int i)
{
    return i < 4 ? &test_dishes[i] : NULL;
}

#endif /* LK_TEST_OPTIONS_H */
